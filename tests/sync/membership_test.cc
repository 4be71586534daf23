#include <gtest/gtest.h>

#include "core/error.h"
#include "harness.h"

namespace archipelago::sync {
namespace {

Settings small(int spares = 1) {
  Settings settings;
  settings.learners = 2;
  settings.fragments = 2;
  settings.spares = spares;
  settings.suspect_after = 5 * kSecond;
  settings.expel_after = 30 * kSecond;
  return settings;
}

LearnerState state(const Harness& harness, int learner) {
  return harness.machine.learners()[learner].state;
}

TEST(Islands, HomeIslandsGetTheirOwnLearner) {
  Harness harness(small());
  EXPECT_EQ(harness.tell(0, IslandReady{1}),
            (std::vector<Action>{Assign{1, 1, 0, 0}, Refresh{1, 0}}));
  EXPECT_TRUE(harness.tell(0, IslandReady{2}).empty());
  EXPECT_TRUE(harness.tell(0, IslandReady{1}).empty());  // said twice
  EXPECT_EQ(harness.tell(0, IslandReady{0}),
            (std::vector<Action>{Assign{0, 0, 0, 0}, Refresh{0, 0}}));
}

TEST(Islands, ASpareTakesAPlaceWhoseHomeNeverCame) {
  Harness harness(small());
  harness.tell(0, IslandReady{2});
  EXPECT_EQ(harness.tell(0, IslandLost{1, "no such host"}),
            (std::vector<Action>{Assign{2, 1, 0, 0}, Refresh{1, 0}, Refill{1}}));
  EXPECT_EQ(harness.machine.losses(), 0);
}

TEST(Islands, ASpareTakesTheDeadLearnersPlace) {
  Harness harness(small());
  harness.tell(0, IslandReady{2});
  harness.start(2);
  EXPECT_EQ(harness.tell(kSecond, IslandLost{1, "killed"}),
            (std::vector<Action>{Assign{2, 1, 1, 0}, Refresh{1, 1}, Refill{1}}));
  EXPECT_EQ(harness.machine.losses(), 1);
  EXPECT_EQ(harness.machine.rejoins(), 0);
  harness.tell(kSecond, harness.report(1, 0));
  EXPECT_EQ(harness.machine.rejoins(), 1);
}

TEST(Islands, TheLowestLostLearnerIsReplacedFirst) {
  Harness harness(small(0));
  harness.start(2);
  harness.tell(0, IslandLost{1, "killed"});
  harness.tell(0, IslandLost{0, "killed"});
  EXPECT_EQ(only<Assign>(harness.tell(0, IslandReady{7})), (std::vector<Assign>{{7, 0, 1, 0}}));
  EXPECT_EQ(only<Assign>(harness.tell(0, IslandReady{5})), (std::vector<Assign>{{5, 1, 1, 0}}));
}

TEST(Islands, ALostIslandNeverComesBack) {
  Harness harness(small());
  harness.tell(0, IslandReady{2});
  harness.tell(0, IslandLost{2, "killed"});
  harness.start(2);
  harness.tell(0, IslandReady{2});
  EXPECT_TRUE(only<Assign>(harness.tell(0, IslandLost{0, "killed"})).empty());
}

TEST(Refill, KeepsThePoolOfSparesUp) {
  Harness harness(small(2));
  harness.start(2);
  harness.tell(0, IslandReady{2});
  // Islands 2 and 3 belong to the job: 3 is on its way.
  EXPECT_EQ(only<Refill>(harness.tell(0, IslandLost{2, "killed"})), (std::vector<Refill>{{1}}));
  EXPECT_TRUE(only<Refill>(harness.tell(0, IslandReady{3})).empty());
  // The learner takes island 3; the refill that was asked for is one, so one more is missing.
  EXPECT_EQ(only<Refill>(harness.tell(0, IslandLost{0, "killed"})), (std::vector<Refill>{{1}}));
  EXPECT_TRUE(harness.tell(0, IslandReady{4}).empty());
  EXPECT_TRUE(harness.tell(0, IslandReady{5}).empty());
  // One that died before it was ready is asked for again.
  EXPECT_EQ(only<Refill>(harness.tell(0, IslandLost{4, "killed"})), (std::vector<Refill>{{1}}));
  EXPECT_EQ(only<Refill>(harness.tell(0, IslandLost{6, "killed"})), (std::vector<Refill>{{1}}));
}

TEST(Silence, SuspectThenActiveAgainThenExpelled) {
  Harness harness(small());
  harness.start(2);
  harness.tell(0, IslandReady{2});
  harness.tick_until(5 * kSecond - 1);
  EXPECT_EQ(state(harness, 0), LearnerState::active);
  harness.tick_until(5 * kSecond);
  EXPECT_EQ(state(harness, 0), LearnerState::suspect);
  harness.tell(6 * kSecond, harness.report(0, 2));
  EXPECT_EQ(state(harness, 0), LearnerState::active);
  harness.tick_until(11 * kSecond);
  EXPECT_EQ(state(harness, 0), LearnerState::suspect);
  auto actions = harness.tick_until(30 * kSecond);
  EXPECT_EQ(only<Expel>(actions), (std::vector<Expel>{{1, 1, 0, "no report for too long"}}));
  EXPECT_EQ(only<Assign>(actions), (std::vector<Assign>{{2, 1, 1, 0}}));
  EXPECT_EQ(harness.machine.losses(), 1);
  // The expelled island is heard again: a spare, which takes the next lost learner.
  EXPECT_TRUE(only<Assign>(harness.tell(31 * kSecond, IslandReady{1})).empty());
  EXPECT_EQ(only<Assign>(harness.tell(31 * kSecond, IslandLost{2, "killed"})),
            (std::vector<Assign>{{1, 1, 2, 0}}));
}

TEST(Silence, AJoinerThatNeverReportsIsExpelled) {
  Harness harness(small(0));
  harness.tell(10 * kSecond, IslandReady{0});
  EXPECT_TRUE(only<Expel>(harness.tick_until(40 * kSecond - 1)).empty());
  EXPECT_EQ(only<Expel>(harness.tick_until(40 * kSecond)).size(), 1U);
}

TEST(Silence, ASuspectThatHadNotJoinedJoinsOn) {
  Harness harness(small(0));
  harness.tell(0, IslandReady{0});
  harness.tick_until(6 * kSecond);
  EXPECT_EQ(state(harness, 0), LearnerState::suspect);
  Report report = harness.report(0, 0);
  report.held = {-1, -1};
  harness.tell(7 * kSecond, report);
  EXPECT_EQ(state(harness, 0), LearnerState::joining);
}

TEST(Silence, ADriverThatWasHeldUpBlamesNobody) {
  Harness harness(small());
  harness.start(2);
  // For 100 s nothing is handed in; then what has arrived comes first, then the Tick.
  harness.tell(100 * kSecond, harness.report(0, 2));
  harness.tell(100 * kSecond, harness.report(1, 2));
  EXPECT_TRUE(only<Expel>(harness.tell(100 * kSecond, Tick{})).empty());
  EXPECT_EQ(harness.machine.losses(), 0);
}

TEST(Joining, CountsWhenItHoldsTheClockOfItsAssignment) {
  Restored restored;
  restored.versions = {3, 4};
  Harness harness(small(), restored);
  harness.tell(0, IslandReady{0});
  Report report = harness.report(0, 0);
  report.held = {3, 3};
  harness.tell(0, report);
  EXPECT_EQ(state(harness, 0), LearnerState::joining);
  report.held = {3};
  harness.tell(0, report);
  EXPECT_EQ(state(harness, 0), LearnerState::joining);
  report.held = {3, 4};
  harness.tell(0, report);
  EXPECT_EQ(state(harness, 0), LearnerState::active);
  EXPECT_EQ(harness.machine.rejoins(), 0);
}

TEST(Reports, ThatWereOvertakenChangeNothing) {
  Harness harness(small());
  harness.start(2);
  harness.tell(kSecond, harness.report(0, 7, 1.5));
  harness.tell(2 * kSecond, harness.report(0, 6, 9));
  const LearnerView& view = harness.machine.learners()[0];
  EXPECT_EQ(view.step, 7);
  EXPECT_EQ(view.step_seconds, 1.5);
  EXPECT_EQ(view.last_report, 2 * kSecond);
}

TEST(Reports, OfAnOlderIncarnationAreIgnored) {
  Harness harness(small());
  harness.start(2);
  Report report = harness.report(0, 9);
  report.incarnation = -1;
  harness.tell(kSecond, report);
  report.incarnation = 1;
  harness.tell(kSecond, report);
  EXPECT_EQ(harness.machine.learners()[0].step, 1);
  EXPECT_EQ(harness.machine.learners()[0].last_report, 0);
}

TEST(Scale, UpTakesSparesAndAsksForMore) {
  Harness harness(small());
  harness.start(2);
  harness.tell(0, IslandReady{2});
  const auto actions = harness.tell(kSecond, ScaleRequested{4});
  EXPECT_EQ(only<Assign>(actions), (std::vector<Assign>{{2, 2, 0, 0}}));
  EXPECT_EQ(only<Refill>(actions), (std::vector<Refill>{{2}}));
  EXPECT_EQ(state(harness, 3), LearnerState::vacant);
  EXPECT_EQ(only<Assign>(harness.tell(kSecond, IslandReady{3})),
            (std::vector<Assign>{{3, 3, 0, 0}}));
}

Settings with_shards(int shards) {
  Settings settings = small();
  settings.shards = {shards};
  settings.windows = {10 * shards};
  return settings;
}

TEST(Guest, TakesAnOpenPlace) {
  Harness harness(small());
  harness.start(2);
  harness.tell(kSecond, IslandLost{1, "killed"});
  EXPECT_EQ(only<Assign>(harness.tell(2 * kSecond, GuestReady{5})),
            (std::vector<Assign>{{5, 1, 1, 0}}));
  EXPECT_EQ(harness.machine.wanted(), 2);
}

TEST(Guest, GetsANewPlaceItselfThoughASpareSleeps) {
  Harness harness(with_shards(3));
  harness.start(2);
  harness.tell(0, IslandReady{2});
  EXPECT_EQ(only<Assign>(harness.tell(kSecond, GuestReady{5})),
            (std::vector<Assign>{{5, 2, 0, 0}}));
  EXPECT_EQ(harness.machine.wanted(), 3);
  EXPECT_EQ(harness.machine.guest_places(), 1);
  // There is no shard for one more: a spare.
  EXPECT_TRUE(only<Assign>(harness.tell(kSecond, GuestReady{6})).empty());
  EXPECT_EQ(harness.machine.wanted(), 3);
}

// Two learners of the run, spares from island 2 on, and a guest, island 5, that plays learner 2.
Harness with_guest(int spares) {
  Harness harness(with_shards(4));
  harness.start(2);
  for (int island = 2; island < 2 + spares; ++island) harness.tell(0, IslandReady{island});
  harness.tell(kSecond, GuestReady{5});
  return harness;
}

TEST(Guest, ItsPlaceIsGoneWithItAndMadeAgainForTheNext) {
  Harness harness = with_guest(1);
  harness.tell(kSecond, GuestReady{6});
  EXPECT_EQ(harness.machine.wanted(), 4);
  const auto after = harness.tell(kSecond, IslandLost{5, "it has left"});
  EXPECT_TRUE(only<Assign>(after).empty()) << "the spare is for the run's own learners";
  EXPECT_TRUE(only<Refill>(after).empty());
  EXPECT_EQ(state(harness, 2), LearnerState::retired);
  EXPECT_EQ(harness.machine.wanted(), 3);
  EXPECT_EQ(harness.machine.guest_places(), 1);
  EXPECT_EQ(only<Assign>(harness.tell(kSecond, GuestReady{7})),
            (std::vector<Assign>{{7, 2, 1, 0}}));
  EXPECT_EQ(harness.machine.wanted(), 4);
}

TEST(Guest, ThatWasSilentForTooLongGetsAPlaceAgain) {
  Harness harness = with_guest(0);
  harness.tell(kSecond + harness.settings.expel_after, Tick{});
  EXPECT_EQ(state(harness, 2), LearnerState::retired);
  const Nanoseconds later = 2 * kSecond + harness.settings.expel_after;
  const auto back = only<Assign>(harness.tell(later, GuestReady{5}));
  EXPECT_EQ(back.size(), 1U);
}

TEST(Guest, ThatRetiresStaysASpare) {
  Harness harness = with_guest(0);
  EXPECT_EQ(only<Retire>(harness.tell(2 * kSecond, ScaleRequested{2})),
            (std::vector<Retire>{{5, 2, 0}}));
  EXPECT_TRUE(only<Assign>(harness.tell(3 * kSecond, GuestReady{5})).empty());
  EXPECT_EQ(harness.machine.wanted(), 2);
}

TEST(Guest, ItsPlaceIsTheRunsOwnOnceItWasAskedFor) {
  Harness harness = with_guest(1);
  harness.tell(kSecond, ScaleRequested{3});
  EXPECT_EQ(harness.machine.guest_places(), 0);
  EXPECT_EQ(only<Assign>(harness.tell(kSecond, IslandLost{5, "killed"})),
            (std::vector<Assign>{{2, 2, 1, 0}}));
}

TEST(Scale, DownRetiresTheHighestWhoseIslandBecomesASpare) {
  Harness harness(small());
  harness.start(2);
  const auto actions = harness.tell(kSecond, ScaleRequested{1});
  EXPECT_EQ(only<Retire>(actions), (std::vector<Retire>{{1, 1, 0}}));
  EXPECT_EQ(state(harness, 1), LearnerState::retired);
  EXPECT_EQ(harness.machine.losses(), 0);
  harness.tell(2 * kSecond, IslandReady{1});
  EXPECT_EQ(only<Assign>(harness.tell(3 * kSecond, IslandLost{0, "killed"})),
            (std::vector<Assign>{{1, 0, 1, 0}}));
}

TEST(Scale, ARetiredLearnersLastContributionCountsUntilItsIdIsTakenUp) {
  for (const bool taken_up : {false, true}) {
    Settings settings = small();
    settings.overlap = 1000;
    Harness harness(settings);
    harness.start(2);
    harness.tell(0, harness.delivery(1, 1));
    harness.tell(0, ScaleRequested{1});
    if (taken_up) harness.tell(0, ScaleRequested{2});
    const auto merges = only<Merge>(harness.tell(0, harness.delivery(0, 1)));
    ASSERT_EQ(merges.size(), 1U);
    EXPECT_EQ(merges[0].contributions.size(), taken_up ? 1U : 2U);
  }
}

TEST(Restored, LivesGoOnFromWhatIsMerged) {
  Settings settings = small();
  settings.batch_tokens = 10;
  Restored restored;
  restored.round = 7;
  restored.versions = {4, 3};
  restored.incarnations = {2, 0, 5};  // the run before had three learners
  restored.merged_tokens = {100, 150, 0, 0, 30, 30};
  Harness harness(settings, restored);
  EXPECT_EQ(harness.machine.total_tokens(), 120 + 0 + 30);
  EXPECT_EQ(only<Assign>(harness.tell(0, IslandReady{0})), (std::vector<Assign>{{0, 0, 3, 120}}));
  EXPECT_EQ(state(harness, 2), LearnerState::retired);
  harness.tell(0, IslandReady{1});
  const auto asks = only<Ask>(harness.tell(0, harness.report(0, 12)));
  ASSERT_EQ(asks.size(), 1U);
  EXPECT_EQ(asks[0], (Ask{0, 3, 8, 1}));  // round 8: fragment 7 mod 2
}

TEST(Restored, MustFitTheSettings) {
  Restored restored;
  restored.versions = {1, 2, 3};
  EXPECT_THROW(Machine(small(), restored), Error);
  restored.versions = {1, 2};
  restored.incarnations = {0};
  restored.merged_tokens = {1, 2, 3};
  EXPECT_THROW(Machine(small(), restored), Error);
}

}  // namespace
}  // namespace archipelago::sync
