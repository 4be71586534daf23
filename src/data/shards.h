#pragma once

#include <cstdint>
#include <span>

namespace archipelago::data {

// How far one data shard has been trained on.
struct ShardCursor {
  int shard;
  std::int64_t cursor;  // sequences taken so far, over epochs: the number of the next one
  bool operator==(const ShardCursor&) const = default;
};

// Of the shards that `before` had too, `now` goes on where `before` was.
void carry_over(std::span<ShardCursor> now, std::span<const ShardCursor> before);

// The training windows dealt out to shards: of each epoch's permuted windows, shard s of S has
// those at s, s+S, s+2S ... Who holds several shards takes, among their next windows, the one that
// comes first in the order of all epochs; so whoever holds the shards s, s+M, s+2M ... of S = M*k
// takes exactly what the one shard s of M would be, and a shard that has fallen behind catches up.
class Shards {
 public:
  // `windows` of one epoch, at least as many as there are shards.
  Shards(std::int64_t windows, int shards);

  // Shards for a run that begins with so many learners: a multiple of them, enough that more can
  // join later, never more than the windows (but at least one a learner).
  static int count_for(std::int64_t windows, int learners);

  int count() const { return shards_; }
  std::int64_t windows() const { return windows_; }

  // Windows of one epoch of `shard`.
  std::int64_t epoch_size(int shard) const { return (windows_ - shard + shards_ - 1) / shards_; }

  // Where the shard's next window stands in the order of all epochs: epoch * windows + its place in
  // the permuted epoch.
  std::int64_t position(const ShardCursor& at) const;

  // Index in `held` of the shard whose next window comes first. `held` is not empty.
  std::size_t next(std::span<const ShardCursor> held) const;

  // Takes `sequences` windows, each the next one, all at once.
  void advance(std::span<ShardCursor> held, std::int64_t sequences) const;

 private:
  std::int64_t taken_before(int shard, std::int64_t position) const;

  std::int64_t windows_;
  int shards_;
};

}  // namespace archipelago::data
