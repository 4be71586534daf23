#include <bit>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "core/random.h"
#include "data/token_dataset.h"

namespace archipelago::data {
namespace {

constexpr int kRounds = 6;

// A permutation of 0 .. size-1 that needs no table: a Feistel network over the smallest even number
// of bits that holds them, walked along its cycle until it falls inside (Black and Rogaway 2002,
// "Ciphers with arbitrary finite domains", cycle-walking). At most four steps on average.
std::uint64_t permute(std::uint64_t index, std::uint64_t size, std::uint64_t key) {
  const int half_bits = (static_cast<int>(std::bit_width(size - 1)) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t value = index;
  do {
    std::uint64_t left = value >> half_bits;
    std::uint64_t right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed =
          mix_bits(mix_bits(key + static_cast<std::uint64_t>(round)) ^ right);
      const std::uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits) | right;
  } while (value >= size);
  return value;
}

}  // namespace

SequenceOrder::SequenceOrder(std::int64_t tokens, std::int64_t context, int shards,
                             std::uint64_t seed)
    : windows_(context > 0 ? (tokens - 1) / context : 0),
      context_(context),
      shards_(shards),
      seed_(seed) {
  if (context < 1 || shards < 1) throw std::invalid_argument("context and shards must be positive");
  if (windows_ < shards) {
    throw Error(ExitCode::bad_data, "the training text has " + std::to_string(tokens) +
                                        " tokens, too few for " + std::to_string(shards) +
                                        " learners with a context of " + std::to_string(context) +
                                        ": prepare more text or choose a smaller model.context");
  }
}

std::int64_t SequenceOrder::epoch_size(int shard) const {
  return (windows_ - shard + shards_ - 1) / shards_;
}

std::int64_t SequenceOrder::window_start(int shard, std::int64_t cursor) const {
  const std::int64_t epoch = cursor / epoch_size(shard);
  const std::int64_t in_epoch = cursor % epoch_size(shard);
  const auto key = mix_bits(seed_ ^ mix_bits(static_cast<std::uint64_t>(epoch)));
  const auto position = static_cast<std::uint64_t>(shard + in_epoch * shards_);
  return static_cast<std::int64_t>(permute(position, static_cast<std::uint64_t>(windows_), key)) *
         context_;
}

void fill_batch(const TokenDataset& dataset, const SequenceOrder& order, int shard,
                std::int64_t cursor, std::int64_t count, std::int64_t context,
                std::span<std::int32_t> inputs, std::span<std::int32_t> targets) {
  const std::span<const std::uint16_t> tokens = dataset.tokens(Split::train);
  for (std::int64_t sequence = 0; sequence < count; ++sequence) {
    const std::int64_t start = order.window_start(shard, cursor + sequence);
    for (std::int64_t position = 0; position < context; ++position) {
      const auto at = static_cast<std::size_t>(sequence * context + position);
      inputs[at] = tokens[static_cast<std::size_t>(start + position)];
      targets[at] = tokens[static_cast<std::size_t>(start + position + 1)];
    }
  }
}

}  // namespace archipelago::data
