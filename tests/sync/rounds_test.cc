#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "harness.h"
#include "sync/machine.h"

namespace archipelago::sync {
namespace {

Settings small() {
  Settings settings;
  settings.learners = 3;
  settings.fragments = 4;
  settings.interval = 8;  // a round every 2 steps
  settings.spares = 0;
  settings.batch_tokens = 10;
  settings.checkpoint_rounds = 1000;
  return settings;
}

std::vector<int> asked(const std::vector<Action>& actions) {
  std::vector<int> learners;
  for (const Ask& ask : only<Ask>(actions)) learners.push_back(ask.learner);
  return learners;
}

TEST(Rounds, OpenForAllActiveLearnersOnceTheStepTimeIsKnown) {
  Harness harness(small());
  EXPECT_TRUE(harness.start(3, 0, 0).empty());
  const auto actions = harness.tell(kSecond, harness.report(1, 2, 0.5));
  EXPECT_EQ(only<Ask>(actions), (std::vector<Ask>{{0, 0, 1, 0}, {1, 0, 1, 0}, {2, 0, 1, 0}}));
}

TEST(Rounds, OpenEveryIntervalTimesStepTimeOverFragments) {
  Harness harness(small());
  harness.start(3);
  EXPECT_EQ(harness.machine.next_wakeup(), 2 * kSecond);
  EXPECT_TRUE(asked(harness.tell(2 * kSecond - 1, Tick{})).empty());
  const auto asks = only<Ask>(harness.tell(2 * kSecond, Tick{}));
  ASSERT_EQ(asks.size(), 3U);
  EXPECT_EQ(asks[0], (Ask{0, 0, 2, 1}));
}

TEST(Rounds, StepTimeIsTheMedianOverActiveLearners) {
  Harness harness(small());
  harness.start(3);
  harness.tell(0, harness.report(0, 2, 0.5));
  harness.tell(0, harness.report(1, 2, 7));
  EXPECT_EQ(harness.machine.next_wakeup(), 2 * kSecond);  // median of 0.5, 7, 1
  harness.tell(0, IslandLost{0, "test"});
  EXPECT_EQ(harness.machine.next_wakeup(), 5 * kSecond);  // suspects; median of 7, 1 gives 8 s
  harness.tell(4 * kSecond, harness.report(1, 3, 7));
  harness.tell(4 * kSecond, harness.report(2, 3, 1));
  EXPECT_TRUE(asked(harness.tell(7 * kSecond, Tick{})).empty());
  const auto asks = only<Ask>(harness.tell(8 * kSecond, Tick{}));
  EXPECT_EQ(std::count_if(asks.begin(), asks.end(), [](const Ask& ask) { return ask.round == 2; }),
            2);
}

TEST(Rounds, AreAskedForAgainByASyncerThatTookOver) {
  Harness harness(small());
  harness.start(3);
  harness.tell(0, harness.delivery(0, 1, 0));
  harness.tell(0, IslandLost{2, "test"});
  const auto actions = harness.tell(kSecond, SyncerReplaced{1});
  EXPECT_EQ(only<Ask>(actions), (std::vector<Ask>{{0, 0, 1, 0}, {1, 0, 1, 0}}));
  // The delivery to the syncer before is not there any more: the round waits for it again.
  EXPECT_TRUE(only<Merge>(harness.tell(kSecond, harness.delivery(1, 1, 0))).empty());
  const auto merges = only<Merge>(harness.tell(kSecond, harness.delivery(0, 1, 0)));
  ASSERT_EQ(merges.size(), 1U);
  EXPECT_EQ(merges[0].contributions.size(), 2U);
}

TEST(Rounds, AskAgainWhenTheQuorumStaysAway) {
  Harness harness(small());
  harness.start(3);
  harness.tell(0, IslandLost{1, "test"});
  // tau = 2, xi = 1 s: four exchanges of 2 s.
  for (int second = 1; second < 8; ++second) {
    harness.tell(second * kSecond, harness.report(0, 3));
    harness.tell(second * kSecond, harness.report(2, 3));
    for (const Ask& ask : only<Ask>(harness.tick_until(second * kSecond))) EXPECT_NE(ask.round, 1);
  }
  std::vector<Ask> again;
  for (const Ask& ask : only<Ask>(harness.tick_until(8 * kSecond))) {
    if (ask.round == 1) again.push_back(ask);
  }
  EXPECT_EQ(again, (std::vector<Ask>{{0, 0, 1, 0}, {2, 0, 1, 0}}));
}

TEST(Rounds, AtMostMaxOpenRounds) {
  Harness harness(small());
  harness.start(3);
  harness.tell(2 * kSecond, Tick{});
  EXPECT_TRUE(asked(harness.tell(4 * kSecond, Tick{})).empty());
  EXPECT_EQ(harness.machine.next_wakeup(), 5 * kSecond);  // no opening is due, only silence
}

TEST(Rounds, AFragmentIsInOneOpenRoundOnly) {
  Settings settings = small();
  settings.fragments = 1;
  settings.interval = 2;
  Harness harness(settings);
  harness.start(3);
  EXPECT_TRUE(asked(harness.tell(2 * kSecond, Tick{})).empty());
  for (int learner = 0; learner < 3; ++learner) {
    harness.tell(2 * kSecond, harness.delivery(learner, 1));
  }
  const auto actions = harness.tell(3 * kSecond, Merged{1, 0.1});
  EXPECT_EQ(only<Publish>(actions), (std::vector<Publish>{{1, 0, 1}}));
  EXPECT_EQ(only<Ask>(actions).front(), (Ask{0, 0, 2, 0}));
}

TEST(Rounds, CloseWhenAllHaveDelivered) {
  Harness harness(small());
  harness.start(3);
  harness.tell(kSecond / 2, harness.delivery(0, 1));
  harness.tell(kSecond / 2, harness.delivery(1, 1));
  const auto actions = harness.tell(kSecond, harness.delivery(2, 1, 1, 5));
  // w = c_tokens * c_tokens / c_steps: 20*20/2 and 50*50/5.
  EXPECT_EQ(actions, (std::vector<Action>{Merge{1, 0, {{0, 0, 200}, {1, 0, 200}, {2, 0, 500}}}}));
}

TEST(Rounds, GraceWindowAfterTheQuorum) {
  Harness harness(small());
  harness.start(3);
  harness.tell(kSecond / 2, harness.delivery(1, 1));
  // slack = 2 * 1 s - 0.5 s - 0 s; grace = 0.75 * 1.5 s.
  EXPECT_EQ(harness.machine.next_wakeup(), kSecond / 2 + 1125 * kMillisecond);
  const auto actions = harness.tick_until(kSecond / 2 + 1125 * kMillisecond);
  EXPECT_EQ(actions, (std::vector<Action>{Merge{1, 0, {{1, 0, 200}}}}));
  EXPECT_EQ(only<Discard>(harness.tell(2 * kSecond, harness.delivery(0, 1))),
            (std::vector<Discard>{{0, 0, 1, 0, "late"}}));
}

TEST(Rounds, GraceCountsTheExpectedMerge) {
  Harness harness(small());
  harness.start(3);
  for (int learner = 0; learner < 3; ++learner) harness.tell(0, harness.delivery(learner, 1));
  harness.tell(kSecond, Merged{1, 0.4});
  harness.tell(2 * kSecond, Tick{});
  harness.tell(2 * kSecond, harness.delivery(0, 2));
  // slack = 2 - 0 - 0.4; grace = 0.75 * 1.6 = 1.2 s.
  EXPECT_EQ(harness.machine.next_wakeup(), 3200 * kMillisecond);
}

TEST(Rounds, NoGraceWithoutSlackAndNoMoreThanTheCap) {
  Settings settings = small();
  Harness late(settings);
  late.start(3);
  late.tell(2500 * kMillisecond, Tick{});
  late.tell(2500 * kMillisecond, late.delivery(0, 1));
  EXPECT_EQ(late.machine.next_wakeup(), 2500 * kMillisecond);
  EXPECT_EQ(only<Merge>(late.tell(2500 * kMillisecond, Tick{})).size(), 1U);
  settings.grace_cap = 100 * kMillisecond;
  Harness capped(settings);
  capped.start(3);
  capped.tell(0, capped.delivery(0, 1));
  EXPECT_EQ(capped.machine.next_wakeup(), 100 * kMillisecond);
}

TEST(Rounds, WaitForTheQuorum) {
  Settings settings = small();
  settings.quorum = 2;
  Harness harness(settings);
  harness.start(3);
  harness.tell(0, harness.delivery(0, 1));
  EXPECT_TRUE(only<Merge>(harness.tick_until(4 * kSecond)).empty());
  harness.tell(4 * kSecond, harness.delivery(2, 1));
  EXPECT_EQ(only<Merge>(harness.tick_until(4 * kSecond)).size(), 1U);
}

TEST(Rounds, TheQuorumIsNoGreaterThanTheLearners) {
  Settings settings = small();
  settings.quorum = 9;
  Harness harness(settings);
  harness.start(3);
  for (int learner = 0; learner < 2; ++learner) harness.tell(0, harness.delivery(learner, 1));
  EXPECT_EQ(only<Merge>(harness.tell(0, harness.delivery(2, 1))).size(), 1U);
}

TEST(Rounds, DoNotWaitForTheDeadOrSilent) {
  Settings settings = small();
  settings.grace_cap = 100 * kSecond;
  settings.overlap = 1000;
  Harness harness(settings);
  harness.start(3);
  harness.tell(0, harness.delivery(0, 1));
  EXPECT_TRUE(only<Merge>(harness.tell(kSecond, IslandLost{1, "killed"})).empty());
  harness.tell(kSecond, harness.report(0, 2));
  const auto actions = harness.tell(5 * kSecond, Tick{});  // learner 2 has been silent for 5 s
  EXPECT_EQ(harness.machine.learners()[2].state, LearnerState::suspect);
  EXPECT_EQ(only<Merge>(actions).size(), 1U);
}

TEST(Rounds, WhatALostLearnerGaveIsDroppedAndTheQuorumWithIt) {
  Harness harness(small());
  harness.start(3);
  harness.tell(kSecond / 2, harness.delivery(0, 1));
  EXPECT_EQ(only<Discard>(harness.tell(kSecond, IslandLost{0, "killed"})),
            (std::vector<Discard>{{0, 0, 1, 0, "learner lost"}}));
  EXPECT_TRUE(only<Merge>(harness.tick_until(4 * kSecond)).empty());
  harness.tell(4 * kSecond, harness.delivery(1, 1));
  EXPECT_EQ(only<Merge>(harness.tell(4 * kSecond, harness.delivery(2, 1))).front().contributions,
            (std::vector<Contribution>{{1, 0, 200}, {2, 0, 200}}));
}

TEST(Rounds, ANewcomerIsAskedWhereTheQuorumIsMissing) {
  Settings settings = small();
  settings.learners = 2;
  Harness harness(settings);
  harness.start(2);
  harness.tell(0, IslandReady{2});
  harness.tell(kSecond, IslandLost{0, "killed"});
  const auto actions = harness.tell(kSecond, harness.report(0, 1));
  EXPECT_EQ(only<Ask>(actions), (std::vector<Ask>{{0, 1, 1, 0}}));
  harness.tell(kSecond, harness.delivery(1, 1));  // the quorum
  harness.tell(kSecond, IslandReady{3});
  harness.tell(kSecond, IslandLost{2, "killed"});
  EXPECT_TRUE(only<Ask>(harness.tell(kSecond, harness.report(0, 1))).empty());
}

TEST(Rounds, AReturningSuspectIsWaitedForAgainButNotAskedTwice) {
  Settings settings = small();
  settings.quorum = 3;
  Harness harness(settings);
  harness.start(3);
  for (int learner = 0; learner < 2; ++learner) {
    harness.tell(kSecond, harness.delivery(learner, 1));
  }
  harness.tell(5 * kSecond, Tick{});
  EXPECT_EQ(harness.machine.learners()[2].state, LearnerState::suspect);
  // Round 2 was opened without it: there it is asked for the first time.
  EXPECT_EQ(harness.tell(5500 * kMillisecond, harness.report(2, 2)),
            (std::vector<Action>{Ask{2, 0, 2, 1}}));
  EXPECT_EQ(only<Merge>(harness.tell(5600 * kMillisecond, harness.delivery(2, 1))).size(), 1U);
}

TEST(Rounds, ASuspectsDeliveryCounts) {
  Harness harness(small());
  harness.start(3);
  harness.tell(6 * kSecond, Tick{});
  EXPECT_EQ(harness.machine.learners()[0].state, LearnerState::suspect);
  harness.tell(6 * kSecond, harness.delivery(0, 1));
  EXPECT_EQ(harness.machine.learners()[0].state, LearnerState::active);
}

class Refusals : public testing::Test {
 protected:
  Refusals() : harness(small()) {
    harness.start(3);
    good = harness.delivery(0, 1);
  }
  std::string refusal(const Delivery& delivery) {
    const auto discards = only<Discard>(harness.tell(kSecond, delivery));
    return discards.empty() ? "" : discards.front().reason;
  }
  Harness harness;
  Delivery good;
};

TEST_F(Refusals, EachHasItsReason) {
  Delivery bad = good;
  bad.incarnation = 1;
  EXPECT_EQ(refusal(bad), "stale incarnation");
  bad = good;
  bad.learner = 7;
  EXPECT_EQ(refusal(bad), "stale incarnation");
  bad = good;
  bad.round = 2;
  EXPECT_EQ(refusal(bad), "not asked");
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(good), "duplicate");
}

TEST_F(Refusals, WrongFragment) {
  good.fragment = 3;
  EXPECT_EQ(refusal(good), "wrong fragment");
  good.fragment = 99;
  EXPECT_EQ(refusal(good), "duplicate");  // its answer is used up
}

TEST_F(Refusals, BaseNewerThanTheClock) {
  good.base_version = 1;
  EXPECT_EQ(refusal(good), "base newer than the clock");
}

TEST_F(Refusals, NegativeCounters) {
  good.steps = -1;
  EXPECT_EQ(refusal(good), "negative counters");
}

TEST_F(Refusals, NotFiniteTakesTheGlobalStateOnce) {
  harness.tell(2 * kSecond, Tick{});  // round 2 is open, too
  good.norm = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(harness.tell(2 * kSecond, good),
            (std::vector<Action>{Discard{0, 0, 1, 0, "not finite"}, Refresh{0, 0}}));
  Delivery second = harness.delivery(0, 2);
  second.norm = std::numeric_limits<double>::infinity();
  EXPECT_EQ(harness.tell(2 * kSecond, second),
            (std::vector<Action>{Discard{0, 0, 2, 1, "not finite"}}));
}

TEST(Rounds, AreNotHeldUpByWhoWasRefused) {
  Settings settings = small();
  settings.quorum = 3;
  Harness harness(settings);
  harness.start(3);
  harness.tell(0, harness.delivery(0, 1, std::numeric_limits<double>::quiet_NaN()));
  harness.tell(0, harness.delivery(1, 1));
  EXPECT_EQ(only<Merge>(harness.tell(0, harness.delivery(2, 1))).front().contributions,
            (std::vector<Contribution>{{1, 0, 200}, {2, 0, 200}}));
}

// A learner that was cut off and trained on: refused where it made many steps, more than twice as
// many as the others gave last, and missed merges of many.
TEST(Rounds, WhoWasTooLongAloneTakesTheGlobalState) {
  struct Case {
    int missed;                 // merges
    std::int64_t merged_steps;  // of each
    std::int64_t steps;         // its own
    bool refused;
  };
  for (const auto& [missed, merged_steps, steps, refused] :
       {Case{5, 3, 13, true}, Case{5, 3, 12, false}, Case{4, 3, 13, false}, Case{1, 13, 27, true},
        Case{1, 13, 26, false}, Case{0, 13, 1000, false}}) {
    Settings settings = small();
    settings.interval = 2;
    settings.fragments = 1;
    Harness harness(settings);
    harness.start(2);
    std::int64_t round = 1;
    for (; round <= 5; ++round) {
      harness.tick_until(round * 10 * kSecond);
      harness.tell(round * 10 * kSecond, harness.delivery(0, round, 1, merged_steps));
      harness.tick_until((round * 10 + 9) * kSecond);
      harness.tell((round * 10 + 9) * kSecond, Merged{round, 0});
      harness.tell((round * 10 + 9) * kSecond, harness.report(0, round));
      harness.tell((round * 10 + 9) * kSecond, harness.report(1, round));
    }
    ASSERT_EQ(harness.machine.versions().front(), 5);
    harness.tick_until(60 * kSecond);
    Delivery late = harness.delivery(1, round, 1, steps);
    late.base_version = 5 - missed;
    const auto actions = harness.tell(60 * kSecond, late);
    const std::vector<Discard> discard = {{1, 0, round, 0, "too long alone"}};
    EXPECT_EQ(only<Discard>(actions), refused ? discard : std::vector<Discard>{});
    EXPECT_EQ(only<Refresh>(actions).size(), refused ? 1U : 0U);
  }
}

TEST(Rounds, AnOutlierAmongItsPeersIsRefused) {
  Harness harness(small());
  harness.start(3);
  harness.tell(0, harness.delivery(0, 1, 1));
  harness.tell(0, harness.delivery(1, 1, 3));
  // The others' median is 2: 20 is within 10 times, 20.1 is not.
  EXPECT_EQ(harness.tell(0, harness.delivery(2, 1, 20.1)),
            (std::vector<Action>{Discard{2, 0, 1, 0, "outlier"}, Refresh{2, 0},
                                 Merge{1, 0, {{0, 0, 200}, {1, 0, 200}}}}));
  harness.tell(0, Merged{1, 0});
  harness.tell(2 * kSecond, Tick{});
  harness.tell(2 * kSecond, harness.delivery(0, 2, 1));
  harness.tell(2 * kSecond, harness.delivery(1, 2, 3));
  EXPECT_EQ(only<Merge>(harness.tell(2 * kSecond, harness.delivery(2, 2, 20)))
                .front()
                .contributions.size(),
            3U);
}

TEST(Rounds, AnOutlierAgainstRecentMergesOfItsFragmentIsRefused) {
  Settings settings = small();
  settings.learners = 1;
  settings.fragments = 2;
  settings.interval = 2;
  Harness harness(settings);
  harness.start(1);
  const std::vector<double> norms = {1, 50, 3, 50, 2, 50, 19, 50};  // odd rounds: fragment 0
  for (int round = 1; round <= 8; ++round) {
    EXPECT_EQ(
        only<Merge>(harness.tell(round * kSecond, harness.delivery(0, round, norms[round - 1])))
            .size(),
        1U)
        << "round " << round;
    harness.tell(round * kSecond, Merged{round, 0});
    harness.tell(round * kSecond, harness.report(0, round));
  }
  // Median of 1, 3, 2, 19 is 2.5.
  const auto actions = harness.tell(9 * kSecond, harness.delivery(0, 9, 25.1));
  EXPECT_EQ(only<Discard>(actions), (std::vector<Discard>{{0, 0, 9, 0, "outlier"}}));
  EXPECT_TRUE(only<Merge>(actions).empty());
  EXPECT_EQ(harness.machine.versions(), (std::vector<std::int32_t>{4, 4}));
  EXPECT_EQ(harness.machine.rounds(), 9);
}

Report diverged_report(const Harness& harness, int learner, std::int64_t step, double loss) {
  Report report = harness.report(learner, step);
  report.loss = loss;
  return report;
}

TEST(Rounds, ALearnerThatHasDivergedIsRefusedUntilItsLossIsSoundAgain) {
  Settings settings = small();
  settings.loss_limit = 11;
  Harness harness(settings);
  harness.start(3);
  harness.tell(0, diverged_report(harness, 2, 2, 11.5));
  harness.tell(0, harness.delivery(2, 1));
  harness.tell(0, harness.delivery(0, 1));
  EXPECT_EQ(harness.tell(0, harness.delivery(1, 1)),
            (std::vector<Action>{Discard{2, 0, 1, 0, "diverged"}, Refresh{2, 0},
                                 Merge{1, 0, {{0, 0, 200}, {1, 0, 200}}}}));
  harness.tell(0, Merged{1, 0});
  harness.tell(2 * kSecond, Tick{});
  harness.tell(2 * kSecond, diverged_report(harness, 2, 3, 10.5));
  harness.tell(2 * kSecond, harness.delivery(2, 2));
  harness.tell(2 * kSecond, harness.delivery(0, 2));
  EXPECT_EQ(
      only<Merge>(harness.tell(2 * kSecond, harness.delivery(1, 2))).front().contributions.size(),
      3U);
}

// It had diverged when it sent the fragment, but that is told only after the step that shows it.
TEST(Rounds, WhatALearnerSentJustBeforeItWasSeenToDivergeIsRefused) {
  Harness harness(small());
  harness.start(3);
  harness.tell(0, harness.delivery(2, 1));
  harness.tell(0, diverged_report(harness, 2, 2, std::numeric_limits<double>::quiet_NaN()));
  harness.tell(0, harness.delivery(0, 1));
  EXPECT_EQ(only<Merge>(harness.tell(0, harness.delivery(1, 1))).front().contributions,
            (std::vector<Contribution>{{0, 0, 200}, {1, 0, 200}}));
}

// Its newest step may be a sound one again.
TEST(Rounds, WorkWithADivergedStepInItIsRefused) {
  Settings settings = small();
  settings.loss_limit = 11;
  for (const double loss : {11.5, std::numeric_limits<double>::quiet_NaN()}) {
    Harness harness(settings);
    harness.start(3);
    Delivery unsound = harness.delivery(2, 1);
    unsound.loss = loss;
    harness.tell(0, unsound);
    harness.tell(0, harness.delivery(0, 1));
    EXPECT_EQ(harness.tell(0, harness.delivery(1, 1)),
              (std::vector<Action>{Discard{2, 0, 1, 0, "diverged"}, Refresh{2, 0},
                                   Merge{1, 0, {{0, 0, 200}, {1, 0, 200}}}}));
  }
}

// Theta itself is far off, from an outer step too long, say.
TEST(Rounds, WhereNobodyIsSoundFiniteWorkIsMerged) {
  Settings settings = small();
  settings.loss_limit = 11;
  Harness harness(settings);
  harness.start(3);
  const auto give = [&](int learner, double loss, double newest) {
    Delivery delivery = harness.delivery(learner, 1);
    delivery.loss = loss;
    harness.tell(0, diverged_report(harness, learner, 2, newest));
    return harness.tell(0, delivery);
  };
  give(0, 13, 10);
  give(1, 12, 12);
  const auto actions = give(2, std::numeric_limits<double>::infinity(), 10);
  EXPECT_EQ(only<Discard>(actions), (std::vector<Discard>{{2, 0, 1, 0, "diverged"}}));
  EXPECT_EQ(only<Merge>(actions).front().contributions,
            (std::vector<Contribution>{{0, 0, 200}, {1, 0, 200}}));
}

TEST(Rounds, OneThatDivergesAgainAndAgainIsRefreshedOncePerTurnOfTheFragments) {
  Settings settings = small();
  settings.learners = 1;
  settings.interval = 4;  // a round a step
  Harness harness(settings);
  harness.start(1);
  int refreshes = 0;
  for (int round = 1; round <= 3 * settings.fragments; ++round) {
    harness.tell(round * kSecond, Tick{});
    if (round % 5 == 0) harness.tell(round * kSecond, harness.report(0, round));  // a sound step
    harness.tell(round * kSecond,
                 diverged_report(harness, 0, round + 1, std::numeric_limits<double>::infinity()));
    const auto actions = harness.tell(round * kSecond, harness.delivery(0, round));
    EXPECT_EQ(only<Discard>(actions).size(), 1U) << round;
    refreshes += static_cast<int>(only<Refresh>(actions).size());
  }
  EXPECT_EQ(refreshes, 3);
  EXPECT_EQ(harness.machine.versions(), std::vector<std::int32_t>(4, 0));
}

TEST(Divergence, EndsTheRunWithoutACheckpointOnceNobodyIsSoundForLong) {
  Settings settings = small();
  settings.checkpoint_rounds = 1;
  Harness harness(settings);
  harness.start(3);
  std::vector<Action> actions;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto all_but_one_diverge = [&](std::int64_t step) {
    harness.tell(step * kSecond, diverged_report(harness, 0, step, nan));
    harness.tell(step * kSecond, diverged_report(harness, 1, step, nan));
  };
  // Three times H = 8 steps after the last sound one; as long as one is sound, for ever.
  for (std::int64_t step = 2; step < 40; ++step) {
    all_but_one_diverge(step);
    harness.tell(step * kSecond, harness.report(2, step));
    ASSERT_FALSE(harness.machine.ending()) << step;
  }
  for (std::int64_t step = 40; step < 63; ++step) {
    all_but_one_diverge(step);
    harness.tell(step * kSecond, diverged_report(harness, 2, step, nan));
    ASSERT_FALSE(harness.machine.ending()) << step;
  }
  all_but_one_diverge(63);
  actions = harness.tell(63 * kSecond, diverged_report(harness, 2, 63, nan));
  const auto later = harness.tick_until(70 * kSecond);
  actions.insert(actions.end(), later.begin(), later.end());
  ASSERT_EQ(only<Finish>(actions).size(), 1U);
  EXPECT_EQ(only<Finish>(actions)[0].outcome, Outcome::diverged);
  EXPECT_TRUE(only<SaveGlobal>(actions).empty());
}

TEST(Divergence, OfAllAtTheLastTokenIsNoCompletion) {
  Settings settings = small();
  settings.learners = 1;
  settings.token_budget = 100;
  Harness harness(settings);
  harness.start(1);
  std::vector<Action> actions = harness.tell(
      kSecond, diverged_report(harness, 0, 10, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(only<Pause>(actions).size(), 1U);
  for (int round = 1; round <= 5 && !harness.machine.finished(); ++round) {
    actions = harness.tell(kSecond, harness.delivery(0, round));
  }
  ASSERT_EQ(only<Finish>(actions).size(), 1U);
  EXPECT_EQ(only<Finish>(actions)[0].outcome, Outcome::diverged);
}

TEST(MergedTokens, CountEachTokenOnce) {
  Settings settings = small();
  settings.learners = 1;
  settings.fragments = 1;
  settings.interval = 2;
  Harness harness(settings);
  harness.start(1);
  const auto merge = [&](std::int64_t round, std::int64_t at_tokens, std::int64_t tokens) {
    Delivery delivery = harness.delivery(0, round);
    delivery.at_tokens = at_tokens;
    delivery.tokens = tokens;
    harness.tell(round * 2 * kSecond, harness.report(0, round + 1));
    harness.tell(round * 2 * kSecond, Tick{});
    harness.tell(round * 2 * kSecond, delivery);
    harness.tell(round * 2 * kSecond, Merged{round, 0});
  };
  merge(1, 100, 100);
  EXPECT_EQ(harness.machine.merged_tokens(), 100);
  merge(2, 150, 80);  // of which 30 were in the one before
  EXPECT_EQ(harness.machine.merged_tokens(), 150);
  merge(3, 300, 40);  // what lies between was never merged
  EXPECT_EQ(harness.machine.merged_tokens(), 190);
  // Of the next life, which trains what was lost and more again.
  merge(4, 290, 140);
  EXPECT_EQ(harness.machine.merged_tokens(), 190);
}

TEST(Rounds, NothingNewClosesARoundWithoutAMerge) {
  Settings settings = small();
  settings.learners = 1;
  Harness harness(settings);
  harness.start(1);
  EXPECT_EQ(harness.tell(0, harness.delivery(0, 1, 1, 0)),
            (std::vector<Action>{Discard{0, 0, 1, 0, "nothing new"}}));
  EXPECT_EQ(harness.machine.rounds(), 1);
  EXPECT_EQ(harness.machine.versions()[0], 0);
}

TEST(Rounds, AReplacedSyncerAsksAgain) {
  Harness harness(small());
  harness.start(3);
  for (int learner = 0; learner < 3; ++learner) harness.tell(0, harness.delivery(learner, 1));
  const auto actions = harness.tell(kSecond, SyncerReplaced{2});
  EXPECT_EQ(actions, (std::vector<Action>{Ask{0, 0, 1, 0}, Ask{1, 0, 1, 0}, Ask{2, 0, 1, 0}}));
  EXPECT_TRUE(harness.tell(kSecond, Merged{1, 1}).empty());  // of a merge that died with it
  for (int learner = 0; learner < 2; ++learner) {
    harness.tell(kSecond, harness.delivery(learner, 1));
  }
  EXPECT_EQ(only<Merge>(harness.tell(kSecond, harness.delivery(2, 1))).size(), 1U);
}

}  // namespace
}  // namespace archipelago::sync
