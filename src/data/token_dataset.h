#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

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

// The order in which one data shard is trained on: a pure function of (seed, shard, cursor), so
// that a learner that comes back goes on exactly where its checkpoint says.
//
// The training split is cut into windows of context+1 tokens that overlap by one; each epoch
// permutes all windows by the seed; shard s of S takes the permuted windows s, s+S, s+2S ... Every
// window is trained on once an epoch by exactly one shard.
class SequenceOrder {
 public:
  SequenceOrder(std::int64_t tokens, std::int64_t context, int shards, std::uint64_t seed);

  // First token of the window that is sequence number `cursor` (from 0, over epochs) of `shard`.
  std::int64_t window_start(int shard, std::int64_t cursor) const;
  // Windows of one epoch of `shard`.
  std::int64_t epoch_size(int shard) const;

 private:
  std::int64_t windows_;
  std::int64_t context_;
  int shards_;
  std::uint64_t seed_;
};

// Writes `count` sequences from number `cursor` of `shard` as (count, context) inputs and targets.
void fill_batch(const TokenDataset& dataset, const SequenceOrder& order, int shard,
                std::int64_t cursor, std::int64_t count, std::int64_t context,
                std::span<std::int32_t> inputs, std::span<std::int32_t> targets);

}  // namespace archipelago::data
