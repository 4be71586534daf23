#include <algorithm>
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

Shards make_shards(std::int64_t tokens, std::int64_t context, int shards) {
  if (context < 1 || shards < 1) throw std::invalid_argument("context and shards must be positive");
  const std::int64_t windows = SequenceOrder::windows_of(tokens, context);
  if (windows >= shards) return {windows, shards};
  throw Error(ExitCode::bad_data, "the training text has " + std::to_string(tokens) +
                                      " tokens, too few for " + std::to_string(shards) +
                                      " data shards with a context of " + std::to_string(context) +
                                      ": prepare more text or choose a smaller model.context");
}

}  // namespace

SequenceOrder::SequenceOrder(std::int64_t tokens, std::int64_t context, int shards,
                             std::uint64_t seed)
    : shards_(make_shards(tokens, context, shards)), context_(context), seed_(seed) {}

std::int64_t SequenceOrder::windows_of(std::int64_t tokens, std::int64_t context) {
  return std::max((tokens - 1) / context, std::int64_t{0});
}

std::int64_t SequenceOrder::window_start(const ShardCursor& at) const {
  const std::int64_t position = shards_.position(at);
  const std::int64_t windows = shards_.windows();
  const auto key = mix_bits(seed_ ^ mix_bits(static_cast<std::uint64_t>(position / windows)));
  return static_cast<std::int64_t>(permute(static_cast<std::uint64_t>(position % windows),
                                           static_cast<std::uint64_t>(windows), key)) *
         context_;
}

void fill_row(const TokenDataset& dataset, const SequenceOrder& order, const ShardCursor& at,
              std::int64_t row, std::int64_t context, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) {
  const std::span<const std::uint16_t> tokens = dataset.tokens(Split::train);
  const std::int64_t start = order.window_start(at);
  for (std::int64_t position = 0; position < context; ++position) {
    const auto place = static_cast<std::size_t>(row * context + position);
    inputs[place] = tokens[static_cast<std::size_t>(start + position)];
    targets[place] = tokens[static_cast<std::size_t>(start + position + 1)];
  }
}

}  // namespace archipelago::data
