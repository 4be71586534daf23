#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "model/model.h"

namespace archipelago::model {

// Odd sizes, so that no kernel gets only whole vectors.
inline config::Model small_config() {
  config::Model config;
  config.layers = 2;
  config.width = 21;
  config.heads = 3;
  config.context = 11;
  config.vocabulary = 29;
  return config;
}

struct Tokens {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;

  Tokens(const config::Model& config, std::int64_t batch) {
    Random random(7);
    const auto bound = static_cast<std::uint64_t>(config.vocabulary);
    for (std::int64_t i = 0; i < batch * config.context; ++i) {
      inputs.push_back(static_cast<std::int32_t>(random.below(bound)));
      targets.push_back(static_cast<std::int32_t>(random.below(bound)));
    }
  }
  Batch batch(std::int64_t sequences) const { return {sequences, inputs, targets}; }
};

}  // namespace archipelago::model
