#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace archipelago::data {

struct PrepareText {
  std::vector<std::filesystem::path> files;  // read one after the other as one text
  std::int64_t vocabulary = 256;             // 256: a token is a byte; more: byte-pair encoding
  double validation = 0.1;                   // share of the text, from its end
  std::string source = "not stated";
  std::string licence = "not stated";
};

// Turns plain text into tokens. The validation part begins at the first line that starts within it
// (at its very first byte where there is none); merges are trained on the rest alone. Throws
// Error(bad_data) where a split would be empty or the text gives too few merges for the vocabulary.
TokenFile prepare_text(const PrepareText& request);

}  // namespace archipelago::data
