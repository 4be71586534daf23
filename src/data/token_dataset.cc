#include "data/token_dataset.h"

#include <utility>

#include "data/token_file.h"

namespace archipelago::data {
namespace {

double bytes_per_token_of(std::int64_t bytes, std::size_t tokens) {
  return tokens == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(tokens);
}

class TokenBatches final : public Batches {
 public:
  TokenBatches(const TokenDataset& dataset, const Course& course)
      : dataset_(dataset),
        context_(course.context),
        order_(static_cast<std::int64_t>(dataset.tokens(Split::train).size()), course.context,
               course.shards, course.seed) {}

  Samples load(std::span<const ShardCursor> places) override {
    inputs_.resize(places.size() * static_cast<std::size_t>(context_));
    targets_.resize(inputs_.size());
    for (std::size_t row = 0; row < places.size(); ++row) {
      fill_row(dataset_, order_, places[row], static_cast<std::int64_t>(row), context_, inputs_,
               targets_);
    }
    return {inputs_, targets_, {}};
  }

 private:
  const TokenDataset& dataset_;
  std::int64_t context_;
  SequenceOrder order_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

}  // namespace

TokenDataset::TokenDataset(const std::filesystem::path& path) {
  TokenFile file = read_token_file(path);
  vocabulary_ = file.vocabulary;
  train_bytes_per_token_ = bytes_per_token_of(file.train_bytes, file.train.size());
  validation_bytes_per_token_ = bytes_per_token_of(file.validation_bytes, file.validation.size());
  digest_ = file.digest;
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

std::int64_t TokenDataset::bytes() const {
  return static_cast<std::int64_t>((train_.size() + validation_.size()) * sizeof(std::uint16_t));
}

std::int64_t TokenDataset::samples(std::int64_t context) const {
  return SequenceOrder::windows_of(static_cast<std::int64_t>(train_.size()), context);
}

std::unique_ptr<Batches> TokenDataset::training(const Course& course) const {
  return std::make_unique<TokenBatches>(*this, course);
}

}  // namespace archipelago::data
