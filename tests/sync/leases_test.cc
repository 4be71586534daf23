#include "sync/leases.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "harness.h"

namespace archipelago::sync {
namespace {

Settings with_data(int learners, int shards) {
  Settings settings;
  settings.learners = learners;
  settings.fragments = 2;
  settings.spares = 0;
  settings.batch_tokens = 20;
  settings.sequence_tokens = 10;  // two sequences a step
  settings.shards = {shards};
  settings.windows = {10 * shards};
  return settings;
}

LeaseFollowed followed(const Lease& lease, std::int64_t tokens) {
  return {lease.learner, lease.incarnation, lease.number, tokens};
}

// The only lease among the actions.
Lease lease_in(const std::vector<Action>& actions) {
  const auto leases = only<Lease>(actions);
  EXPECT_EQ(leases.size(), 1U);
  return leases.empty() ? Lease{} : leases[0];
}

TEST(Leases, TheFirstLearnersHaveStripes) {
  Harness harness(with_data(2, 6));
  EXPECT_EQ(lease_in(harness.tell(0, IslandReady{0})), (Lease{0, 0, 1, {0, 2, 4}, {0, 0, 0}}));
  EXPECT_EQ(lease_in(harness.tell(0, IslandReady{1})), (Lease{1, 0, 1, {1, 3, 5}, {0, 0, 0}}));
}

TEST(Leases, AShardMovesOnlyOnceItsHolderHasLetGo) {
  Harness harness(with_data(1, 4));
  harness.tell(0, followed(lease_in(harness.tell(0, IslandReady{0})), 0));
  harness.tell(0, IslandReady{1});
  const Lease smaller = lease_in(harness.tell(kSecond, ScaleRequested{2}));
  EXPECT_EQ(smaller, (Lease{0, 0, 2, {0, 1}, {0, 0}}));
  // It goes on with all four until it has heard: three steps are six sequences.
  EXPECT_EQ(lease_in(harness.tell(2 * kSecond, followed(smaller, 60))),
            (Lease{1, 0, 1, {2, 3}, {1, 1}}));
  EXPECT_EQ(harness.machine.total_tokens(), 60);
  EXPECT_EQ(harness.machine.shard_cursors(), (std::vector<std::int64_t>{2, 2, 1, 1}));
  // What was trained before the shards moved is settled: a death does not fall back behind it.
  harness.tell(3 * kSecond, IslandLost{0, "killed"});
  EXPECT_EQ(harness.machine.total_tokens(), 60);
}

TEST(Leases, ALeaseOfAnOlderLifeOrNumberIsNotFollowed) {
  Harness harness(with_data(1, 4));
  const Lease lease = lease_in(harness.tell(0, IslandReady{0}));
  harness.tell(0, LeaseFollowed{0, 0, lease.number + 1, 0});
  harness.tell(0, LeaseFollowed{0, -1, lease.number, 0});
  EXPECT_TRUE(harness.machine.leases()[0].tenures()[0].offered);
  harness.tell(0, followed(lease, 0));
  EXPECT_FALSE(harness.machine.leases()[0].tenures()[0].offered);
}

TEST(Leases, WhatALostLearnerHeldIsTrainedByTheOthersFromWhereItWasMerged) {
  Harness harness(with_data(2, 4));
  const Lease first = lease_in(harness.tell(0, IslandReady{0}));
  harness.tell(0, followed(lease_in(harness.tell(0, IslandReady{1})), 0));
  harness.tell(0, followed(first, 0));
  harness.tell(kSecond, harness.report(1, 50, 0));
  EXPECT_EQ(harness.machine.total_tokens(), 1000);
  EXPECT_EQ(lease_in(harness.tell(2 * kSecond, IslandLost{1, "killed"})),
            (Lease{0, 0, 2, {0, 2, 1, 3}, {0, 0, 0, 0}}));
  EXPECT_EQ(harness.machine.total_tokens(), 0);
}

TEST(Leases, LearnersOfOtherDataShareNothing) {
  Settings settings = with_data(3, 6);
  settings.shards = {6, 4};
  settings.windows = {60, 40};
  settings.groups = {0, 0, 1};
  Harness harness(settings);
  EXPECT_EQ(lease_in(harness.tell(0, IslandReady{1})).shards, (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(lease_in(harness.tell(0, IslandReady{2})).shards, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(only<Lease>(harness.tell(kSecond, IslandLost{2, "killed"})).empty());
  EXPECT_EQ(harness.machine.leases()[1].free().size(), 4U);
  // A spare takes the place and all of the data.
  EXPECT_EQ(lease_in(harness.tell(kSecond, IslandReady{7})).shards, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(harness.machine.shards_for(2), 4);
  EXPECT_EQ(harness.machine.shards_for(9), 6);
  EXPECT_EQ(harness.machine.most_learners(), 7);
  EXPECT_EQ(harness.machine.shard_cursors().size(), 10U);
}

TEST(Leases, ACheckpointMustFit) {
  const Settings settings = with_data(2, 4);
  const auto refused = [&](const Settings& wanted, std::vector<std::int64_t> cursors) {
    Restored restored;
    restored.shards = std::move(cursors);
    try {
      Machine(wanted, restored);
      return false;
    } catch (const Error& error) {
      return error.code() == ExitCode::bad_data;
    }
  };
  EXPECT_FALSE(refused(settings, {1, 2, 3, 4}));
  EXPECT_FALSE(refused(settings, {1, 2, 3, 4, 5, 6}));  // of a run with other learners
  EXPECT_TRUE(refused(settings, {1}));                  // too few for two learners
  EXPECT_TRUE(refused(settings, {1, -2, 3, 4}));
  EXPECT_TRUE(refused(settings, std::vector<std::int64_t>(41, 0)));  // more than sequences
}

}  // namespace
}  // namespace archipelago::sync
