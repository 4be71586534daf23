#include "data/shards.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/random.h"

namespace archipelago::data {
namespace {

using Held = std::vector<ShardCursor>;

Held stripe(int first, int step, int shards) {
  Held held;
  for (int shard = first; shard < shards; shard += step) held.push_back({shard, 0});
  return held;
}

// What the holder takes next, in the order of all epochs.
std::int64_t take(const Shards& shards, Held& held) {
  ShardCursor& at = held[shards.next(held)];
  const std::int64_t position = shards.position(at);
  ++at.cursor;
  return position;
}

TEST(Shards, AStripeOfManyIsOneOfFew) {
  for (const std::int64_t windows : {66, 67, 100, 131}) {
    const Shards few(windows, 3);
    const Shards many(windows, 66);
    for (int learner = 0; learner < 3; ++learner) {
      Held one = {{learner, 0}};
      Held held = stripe(learner, 3, 66);
      for (int i = 0; i < 5 * windows; ++i) {
        ASSERT_EQ(take(many, held), take(few, one)) << windows << " windows, sequence " << i;
      }
    }
  }
}

TEST(Shards, EachWindowIsInOneShardOnceAnEpoch) {
  const Shards shards(103, 10);
  std::set<std::int64_t> seen;
  std::int64_t sum = 0;
  for (int shard = 0; shard < 10; ++shard) {
    sum += shards.epoch_size(shard);
    for (std::int64_t i = 0; i < 3 * shards.epoch_size(shard); ++i) {
      EXPECT_TRUE(seen.insert(shards.position({shard, i})).second);
    }
  }
  EXPECT_EQ(sum, 103);
  EXPECT_EQ(seen.size(), 309U);
  EXPECT_EQ(*seen.rbegin(), 308);
}

TEST(Shards, WhatHasFallenBehindComesFirst) {
  const Shards shards(20, 4);
  Held held = {{0, 3}, {3, 0}};
  EXPECT_EQ(take(shards, held), 3);
  EXPECT_EQ(take(shards, held), 7);
  EXPECT_EQ(take(shards, held), 11);
  EXPECT_EQ(take(shards, held), 12);  // shard 0 again
}

TEST(Shards, AdvancingIsTakingOneByOne) {
  Random random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int count = 1 + static_cast<int>(random.below(20));
    const Shards shards(count + static_cast<std::int64_t>(random.below(60)), count);
    Held one_by_one;
    for (int shard = 0; shard < count; ++shard) {
      if (random.below(2) > 0) {
        one_by_one.push_back({shard, static_cast<std::int64_t>(random.below(30))});
      }
    }
    Held at_once = one_by_one;
    const auto sequences = static_cast<std::int64_t>(random.below(200));
    for (std::int64_t i = 0; i < sequences && !one_by_one.empty(); ++i) take(shards, one_by_one);
    shards.advance(at_once, sequences);
    ASSERT_EQ(at_once, one_by_one) << "trial " << trial;
  }
}

TEST(Shards, ThereAreEnoughForLearnersToCome) {
  EXPECT_EQ(Shards::count_for(1'000'000, 3), 66);
  EXPECT_EQ(Shards::count_for(1'000'000, 64), 256);
  EXPECT_EQ(Shards::count_for(10, 3), 9);
  EXPECT_EQ(Shards::count_for(2, 3), 3);  // too little data is another's to refuse
}

}  // namespace
}  // namespace archipelago::data
