#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/byte_pairs.h"

namespace archipelago::data {

// What a token file holds besides its tokens. File format: docs/data.md.
struct Provenance {
  std::string source;       // where the text comes from
  std::string licence;      // under what terms it may be used
  std::string text_digest;  // XXH3-64 of the whole text, 16 hexadecimal digits
};

struct TokenFile {
  std::int64_t vocabulary = 0;
  std::vector<std::uint16_t> train;
  std::vector<std::uint16_t> validation;
  std::int64_t train_bytes = 0;  // bytes of text that the split's tokens stand for
  std::int64_t validation_bytes = 0;
  // Byte-pair merges in order. Empty: a token is a byte.
  std::vector<Merge> merges;
  Provenance provenance;
  std::uint64_t digest = 0;  // digest_tokens(), once read
};

inline constexpr const char* kTokenFormat = "archipelago-tokens";
inline constexpr const char* kTokenFormatVersion = "1.0";

// Hash over vocabulary and both splits.
std::uint64_t digest_tokens(std::int64_t vocabulary, std::span<const std::uint16_t> train,
                            std::span<const std::uint16_t> validation);

// Writes the file whole or not at all. Throws std::system_error naming the path.
void write_token_file(const std::filesystem::path& path, const TokenFile& file);

// Throws Error(bad_data) naming the file and what is wrong with it.
TokenFile read_token_file(const std::filesystem::path& path);

}  // namespace archipelago::data
