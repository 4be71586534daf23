#pragma once

#include <filesystem>

#include "core/random.h"
#include "data/token_file.h"

namespace archipelago::runtime {

// A token file of 200 tokens of 16 kinds, the same for the same seed.
inline void write_tiny_text(const std::filesystem::path& path, std::uint64_t seed) {
  data::TokenFile file;
  file.vocabulary = 16;
  Random random(seed);
  for (int i = 0; i < 200; ++i) file.train.push_back(static_cast<std::uint16_t>(random.below(16)));
  file.validation = {1, 2, 3};
  file.train_bytes = 200;
  file.validation_bytes = 3;
  file.provenance = {.source = "a test", .licence = "none", .text_digest = "0"};
  data::write_token_file(path, file);
}

}  // namespace archipelago::runtime
