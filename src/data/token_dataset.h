#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/shards.h"

namespace archipelago::data {

// An HDF5 token file made by `archipelago prepare text`, read whole into memory. File format:
// docs/data.md.
class TokenDataset final : public Dataset {
 public:
  // Throws Error(bad_data) naming the file and what is wrong with it (missing, truncated, foreign,
  // an id outside its vocabulary).
  explicit TokenDataset(const std::filesystem::path& path);

  std::int64_t vocabulary() const override;
  std::uint64_t digest() const override;
  std::int64_t bytes() const override;
  std::int64_t samples(std::int64_t context) const override;
  std::unique_ptr<Batches> training(const Course& course) const override;

  std::span<const std::uint16_t> tokens(Split split) const;
  // Bytes of the text a token stands for on average, to turn nats a token into nats a byte.
  double bytes_per_token(Split split) const;

 private:
  std::int64_t vocabulary_ = 0;
  std::vector<std::uint16_t> train_;
  std::vector<std::uint16_t> validation_;
  double train_bytes_per_token_ = 1;
  double validation_bytes_per_token_ = 1;
  std::uint64_t digest_ = 0;
};

// The order in which data shards are trained on: a pure function of (seed, shard, cursor), so that
// whoever takes a shard up goes on exactly where it was left.
//
// The training split is cut into windows of context+1 tokens that overlap by one; each epoch
// permutes all windows by the seed, and deals them out to the shards (data/shards.h). Every window
// is trained on once an epoch by exactly one shard.
class SequenceOrder {
 public:
  // Throws Error(bad_data) where there are fewer windows than shards.
  SequenceOrder(std::int64_t tokens, std::int64_t context, int shards, std::uint64_t seed);

  // Windows of one epoch.
  static std::int64_t windows_of(std::int64_t tokens, std::int64_t context);

  // First token of the shard's next window.
  std::int64_t window_start(const ShardCursor& at) const;

  const Shards& shards() const { return shards_; }

 private:
  Shards shards_;
  std::int64_t context_;
  std::uint64_t seed_;
};

// Writes the window at `row` of (count, context) inputs and targets.
void fill_row(const TokenDataset& dataset, const SequenceOrder& order, const ShardCursor& at,
              std::int64_t row, std::int64_t context, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets);

}  // namespace archipelago::data
