#include "data/shards.h"

#include <algorithm>
#include <stdexcept>

namespace archipelago::data {
namespace {

constexpr std::int64_t kEnough = 64;          // shards of a run of few learners
constexpr std::int64_t kLeastPerLearner = 4;  // of a run of many

}  // namespace

void carry_over(std::span<ShardCursor> now, std::span<const ShardCursor> before) {
  for (ShardCursor& at : now) {
    const auto kept = std::ranges::find(before, at.shard, &ShardCursor::shard);
    if (kept != before.end()) at = *kept;
  }
}

Shards::Shards(std::int64_t windows, int shards) : windows_(windows), shards_(shards) {
  if (shards < 1 || windows < shards) {
    throw std::invalid_argument("there must be shards, and a window for each");
  }
}

int Shards::count_for(std::int64_t windows, int learners) {
  const std::int64_t wanted = std::max(kLeastPerLearner, (kEnough + learners - 1) / learners);
  return static_cast<int>(learners * std::clamp(windows / learners, std::int64_t{1}, wanted));
}

std::int64_t Shards::position(const ShardCursor& at) const {
  const std::int64_t size = epoch_size(at.shard);
  return at.cursor / size * windows_ + at.shard + at.cursor % size * shards_;
}

std::size_t Shards::next(std::span<const ShardCursor> held) const {
  std::size_t first = 0;
  std::int64_t lowest = position(held[0]);
  for (std::size_t i = 1; i < held.size(); ++i) {
    const std::int64_t place = position(held[i]);
    if (place >= lowest) continue;
    first = i;
    lowest = place;
  }
  return first;
}

std::int64_t Shards::taken_before(int shard, std::int64_t position) const {
  const std::int64_t in_epoch = position % windows_;
  const std::int64_t of_epoch =
      in_epoch > shard ? (in_epoch - shard + shards_ - 1) / shards_ : std::int64_t{0};
  return position / windows_ * epoch_size(shard) + of_epoch;
}

void Shards::advance(std::span<ShardCursor> held, std::int64_t sequences) const {
  if (held.empty() || sequences <= 0) return;
  const auto taken = [&](std::int64_t position) {
    std::int64_t sum = 0;
    for (const ShardCursor& at : held) {
      sum += std::max(taken_before(at.shard, position) - at.cursor, std::int64_t{0});
    }
    return sum;
  };
  // Each position is one window of one shard, so some position splits off just as many.
  std::int64_t low = 0;
  std::int64_t high = position({held[0].shard, held[0].cursor + sequences});
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (taken(middle) >= sequences) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  for (ShardCursor& at : held) at.cursor = std::max(at.cursor, taken_before(at.shard, low));
}

}  // namespace archipelago::data
