#include "runtime/silences.h"

#include <gtest/gtest.h>

namespace archipelago::runtime {
namespace {

using sync::LearnerState;

constexpr sync::Nanoseconds kSecond = 1'000'000'000;

sync::LearnerView view(LearnerState state, int incarnation, sync::Nanoseconds last_report) {
  sync::LearnerView view;
  view.state = state;
  view.incarnation = incarnation;
  view.last_report = last_report;
  return view;
}

TEST(Silences, AreToldOnceAndTheirEndOnce) {
  Silences silences;
  std::vector<sync::LearnerView> learners = {view(LearnerState::active, 0, 5 * kSecond),
                                             view(LearnerState::suspect, 3, 2 * kSecond)};
  const auto begun = silences.update(learners, 5 * kSecond);
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].learner, 1);
  EXPECT_TRUE(begun[0].silent);
  EXPECT_DOUBLE_EQ(begun[0].seconds, 3);
  EXPECT_TRUE(silences.any());
  EXPECT_TRUE(silences.update(learners, 6 * kSecond).empty());

  learners[1] = view(LearnerState::active, 3, 9 * kSecond);
  const auto ended = silences.update(learners, 9 * kSecond);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].learner, 1);
  EXPECT_FALSE(ended[0].silent);
  EXPECT_DOUBLE_EQ(ended[0].seconds, 7);
  EXPECT_FALSE(silences.any());
  EXPECT_TRUE(silences.update(learners, 9 * kSecond).empty());
}

TEST(Silences, OfALifeThatIsOverAreForgotten) {
  for (const auto& next :
       {view(LearnerState::lost, 3, 2 * kSecond), view(LearnerState::joining, 4, 8 * kSecond)}) {
    Silences silences;
    std::vector<sync::LearnerView> learners = {view(LearnerState::suspect, 3, 2 * kSecond)};
    EXPECT_EQ(silences.update(learners, 5 * kSecond).size(), 1U);
    learners[0] = next;
    EXPECT_TRUE(silences.update(learners, 8 * kSecond).empty());
    EXPECT_FALSE(silences.any());
  }
}

TEST(Silences, ANewLifeMayFallSilentToo) {
  Silences silences;
  std::vector<sync::LearnerView> learners = {view(LearnerState::suspect, 3, 2 * kSecond)};
  EXPECT_EQ(silences.update(learners, 5 * kSecond).size(), 1U);
  learners[0] = view(LearnerState::suspect, 4, 6 * kSecond);
  const auto again = silences.update(learners, 10 * kSecond);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].silent);
  EXPECT_DOUBLE_EQ(again[0].seconds, 4);
}

}  // namespace
}  // namespace archipelago::runtime
