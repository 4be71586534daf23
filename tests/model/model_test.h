#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
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

// The smallest network of each kind.
inline config::Model small_config(const std::string& kind) {
  config::Model config = small_config();
  config.kind = kind;
  if (kind == "moe") {
    config.experts = 5;
    config.expert_width = 13;
  }
  if (kind == "vit" || kind == "linear") {
    config.image = 9;
    config.image_channels = 3;
    config.patch = 3;
    config.context = kind == "vit" ? 9 : 1;
  }
  return config;
}

// Random input of any kind of network.
struct Example {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  std::vector<float> images;

  Example(const config::Model& config, std::int64_t batch) {
    Random random(7);
    const auto token = [&] {
      return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(config.vocabulary)));
    };
    if (is_image_model(config)) {
      const std::int64_t numbers = config.image_channels * config.image * config.image;
      for (std::int64_t i = 0; i < batch; ++i) targets.push_back(token());
      for (std::int64_t i = 0; i < batch * numbers; ++i) {
        images.push_back(static_cast<float>(random.normal()));
      }
      return;
    }
    for (std::int64_t i = 0; i < batch * config.context; ++i) {
      inputs.push_back(token());
      targets.push_back(token());
    }
  }
  Batch batch(std::int64_t sequences) const { return {sequences, inputs, targets, images}; }
};

// Larger than GPT-2's, so that no gradient is too small to check; norms and biases too.
inline void scatter_parameters(Model& model) {
  Random random(3);
  for (const TensorInfo& tensor : model.tensors()) {
    const bool norm = tensor.role == TensorRole::vector && tensor.name.ends_with(".weight");
    for (float& value : model.parameters().subspan(tensor.offset, tensor.size)) {
      value = static_cast<float>((norm ? 1.0 : 0.0) + 0.3 * random.normal());
    }
  }
}

}  // namespace archipelago::model
