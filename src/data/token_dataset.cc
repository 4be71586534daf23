#include "data/token_dataset.h"

#include <utility>

#include "data/token_file.h"

namespace archipelago::data {
namespace {

double bytes_per_token_of(std::int64_t bytes, std::size_t tokens) {
  return tokens == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(tokens);
}

}  // namespace

TokenDataset::TokenDataset(const std::filesystem::path& path) {
  TokenFile file = read_token_file(path);
  vocabulary_ = file.vocabulary;
  train_bytes_per_token_ = bytes_per_token_of(file.train_bytes, file.train.size());
  validation_bytes_per_token_ = bytes_per_token_of(file.validation_bytes, file.validation.size());
  digest_ = digest_tokens(file.vocabulary, file.train, file.validation);
  train_ = std::move(file.train);
  validation_ = std::move(file.validation);
}

std::int64_t TokenDataset::vocabulary() const { return vocabulary_; }

std::span<const std::uint16_t> TokenDataset::tokens(Split split) const {
  return split == Split::train ? train_ : validation_;
}

double TokenDataset::bytes_per_token(Split split) const {
  return split == Split::train ? train_bytes_per_token_ : validation_bytes_per_token_;
}

std::uint64_t TokenDataset::digest() const { return digest_; }

}  // namespace archipelago::data
