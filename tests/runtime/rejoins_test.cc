#include "runtime/rejoins.h"

#include <gtest/gtest.h>

namespace archipelago::runtime {
namespace {

std::vector<sync::LearnerView> learners(int incarnation, sync::LearnerState state) {
  std::vector<sync::LearnerView> views(2);
  views[1].incarnation = incarnation;
  views[1].state = state;
  return views;
}

TEST(Rejoins, TellsOnceHowLongALearnerWasAway) {
  using enum sync::LearnerState;
  Rejoins rejoins;
  rejoins.lose(1, 4, 10);
  EXPECT_TRUE(rejoins.take(learners(4, active), 11).empty());  // the life that was lost
  EXPECT_TRUE(rejoins.take(learners(5, joining), 12).empty());
  const auto taken = rejoins.take(learners(5, active), 13.5);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].learner, 1);
  EXPECT_EQ(taken[0].incarnation, 5);
  EXPECT_EQ(taken[0].seconds, 3.5);
  EXPECT_TRUE(rejoins.take(learners(5, active), 20).empty());
  EXPECT_EQ(rejoins.seconds(), std::vector<double>{3.5});
}

TEST(Rejoins, CountsFromTheNewestLoss) {
  Rejoins rejoins;
  rejoins.lose(1, 4, 10);
  rejoins.begin(1, 7);
  rejoins.lose(1, 7, 20);
  rejoins.begin(1, 8);
  EXPECT_EQ(rejoins.take(learners(8, sync::LearnerState::active), 21).at(0).seconds, 1);
}

TEST(Rejoins, ForgetsWhoLeftOnRequest) {
  Rejoins rejoins;
  rejoins.lose(1, 4, 10);
  rejoins.forget(1);
  EXPECT_TRUE(rejoins.take(learners(5, sync::LearnerState::active), 21).empty());
}

}  // namespace
}  // namespace archipelago::runtime
