#include <gtest/gtest.h>

#include "harness.h"

namespace archipelago::sync {
namespace {

TEST(Membership, HomeIslandsGetTheirOwnLearner) {
  Settings settings;
  settings.learners = 2;
  settings.fragments = 2;
  Harness harness(settings);
  EXPECT_EQ(harness.tell(0, IslandReady{1}),
            (std::vector<Action>{Assign{1, 1, 0, 0}, Refresh{1, 0}}));
  EXPECT_EQ(harness.tell(0, IslandReady{2}), std::vector<Action>{});
  EXPECT_EQ(harness.tell(0, IslandReady{0}),
            (std::vector<Action>{Assign{0, 0, 0, 0}, Refresh{0, 0}}));
}

TEST(Membership, ASpareTakesTheDeadLearnersPlace) {
  Settings settings;
  settings.learners = 2;
  settings.fragments = 2;
  Harness harness(settings);
  harness.tell(0, IslandReady{2});
  harness.start(2);
  EXPECT_EQ(harness.tell(kSecond, IslandLost{1, "killed"}),
            (std::vector<Action>{Assign{2, 1, 1, 0}, Refresh{1, 1}, Refill{1}}));
  EXPECT_EQ(harness.machine.losses(), 1);
  EXPECT_EQ(harness.machine.rejoins(), 0);
  harness.tell(kSecond, harness.report(1, 0));
  EXPECT_EQ(harness.machine.rejoins(), 1);
}

}  // namespace
}  // namespace archipelago::sync
