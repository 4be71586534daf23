#include <gtest/gtest.h>

#include "harness.h"

namespace archipelago::sync {
namespace {

Settings small() {
  Settings settings;
  settings.learners = 2;
  settings.fragments = 2;
  settings.interval = 4;  // a round every 2 steps
  settings.spares = 0;
  settings.batch_tokens = 10;
  settings.token_budget = 200;
  return settings;
}

void finish_round(Harness& harness, Nanoseconds now, std::int64_t round) {
  for (int learner = 0; learner < 2; ++learner) harness.tell(now, harness.delivery(learner, round));
}

TEST(Completion, PausesHoldsALastRoundOfEveryFragmentAndFinishes) {
  Harness harness(small());
  harness.start(2);
  harness.tell(kSecond, harness.report(0, 10));  // 100 of 200 tokens, and 10 of learner 1
  auto actions = harness.tell(kSecond, harness.report(1, 10));
  // Round 1 is open for fragment 0; round 2 opens at once for fragment 1.
  EXPECT_EQ(actions, (std::vector<Action>{Pause{}, Ask{0, 0, 2, 1}, Ask{1, 0, 2, 1}}));
  finish_round(harness, kSecond, 1);
  actions = harness.tell(kSecond, Merged{1, 0});
  EXPECT_EQ(actions, (std::vector<Action>{Publish{1, 0, 1}, Ask{0, 0, 3, 0}, Ask{1, 0, 3, 0}}));
  finish_round(harness, kSecond, 2);
  EXPECT_EQ(harness.tell(kSecond, Merged{2, 0}), (std::vector<Action>{Publish{2, 1, 1}}));
  finish_round(harness, kSecond, 3);
  EXPECT_EQ(harness.tell(kSecond, Merged{3, 0}),
            (std::vector<Action>{Publish{3, 0, 2}, SaveGlobal{3},
                                 Finish{Outcome::complete, "all tokens are trained"}}));
  EXPECT_TRUE(harness.machine.finished());
  EXPECT_EQ(harness.machine.next_wakeup(), std::nullopt);
  EXPECT_TRUE(harness.tell(kSecond, IslandReady{5}).empty());
}

// Learners have received fragments since they were last merged, or came too late in a last round.
TEST(Completion, LeavesNothingToTrainForAStartFromItsCheckpoint) {
  Harness harness(small());
  harness.start(2);
  harness.tell(kSecond, harness.report(0, 10));
  harness.tell(kSecond, harness.report(1, 10));
  for (std::int64_t round = 1; round <= 3; ++round) {
    for (int learner = 0; learner < 2; ++learner) {
      Delivery delivery = harness.delivery(learner, round);
      delivery.at_tokens = 70;
      harness.tell(kSecond, delivery);
    }
    harness.tell(kSecond, Merged{round, 0});
  }
  ASSERT_TRUE(harness.machine.finished());
  Restored restored;
  restored.round = harness.machine.rounds();
  restored.versions = harness.machine.versions();
  restored.incarnations = {0, 0};
  for (const LearnerView& learner : harness.machine.learners()) {
    restored.merged_tokens.insert(restored.merged_tokens.end(), learner.merged_tokens.begin(),
                                  learner.merged_tokens.end());
  }
  EXPECT_EQ(Machine(small(), restored).total_tokens(), 200);
}

TEST(Completion, NobodyIsReplacedAndNobodyLeftEndsIt) {
  Settings settings = small();
  settings.spares = 1;
  Harness harness(settings);
  harness.start(2);
  harness.tell(0, IslandReady{2});
  harness.tell(kSecond, harness.report(0, 10));
  harness.tell(kSecond, harness.report(1, 10));
  EXPECT_TRUE(harness.tell(kSecond, IslandLost{0, "killed"}).empty());
  const auto actions = harness.tell(kSecond, IslandLost{1, "killed"});
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(actions[0], Action{SaveGlobal{harness.machine.rounds()}});
  EXPECT_EQ(std::get<Finish>(actions[1]).outcome, Outcome::complete);
}

TEST(Completion, WaitsForASuspectUntilItIsExpelled) {
  Harness harness(small());
  harness.start(2);
  harness.tell(kSecond, harness.report(0, 10));
  harness.tell(kSecond, harness.report(1, 10));
  harness.tell(10 * kSecond, Tick{});  // both are suspects; rounds 1 and 2 close with nothing
  EXPECT_FALSE(harness.machine.finished());
  const auto actions = harness.tell(31 * kSecond, Tick{});
  EXPECT_EQ(only<Expel>(actions).size(), 2U);
  EXPECT_EQ(only<Finish>(actions).size(), 1U);
}

TEST(Completion, TokensOfALostLifeThatAreNotMergedAreTrainedAgain) {
  Settings settings = small();
  settings.spares = 1;
  Harness harness(settings);
  harness.start(2);
  harness.tell(0, IslandReady{2});
  Delivery delivery = harness.delivery(0, 1);
  delivery.at_tokens = 70;
  harness.tell(0, delivery);
  harness.tell(0, harness.delivery(1, 1));
  harness.tell(0, Merged{1, 0});
  harness.tell(kSecond, harness.report(0, 9));
  EXPECT_EQ(harness.machine.total_tokens(), 90 + 10);
  // Merged: 70 of fragment 0, 0 of fragment 1; the mean 35, in whole steps of 10, is 30.
  const auto actions = harness.tell(kSecond, IslandLost{0, "killed"});
  EXPECT_EQ(only<Assign>(actions), (std::vector<Assign>{{2, 0, 1, 30}}));
  EXPECT_EQ(harness.machine.total_tokens(), 30 + 10);
  EXPECT_EQ(harness.machine.learners()[0].step, 3);
}

TEST(Stop, LetsOpenRoundsCloseAndFinishes) {
  Harness harness(small());
  harness.start(2);
  EXPECT_TRUE(harness.tell(kSecond, StopRequested{"SIGTERM"}).empty());
  EXPECT_TRUE(only<Ask>(harness.tell(2 * kSecond, harness.report(0, 3))).empty());
  finish_round(harness, 2 * kSecond, 1);
  EXPECT_EQ(
      harness.tell(2 * kSecond, Merged{1, 0}),
      (std::vector<Action>{Publish{1, 0, 1}, SaveGlobal{1}, Finish{Outcome::stopped, "SIGTERM"}}));
}

TEST(Stop, DropsARoundWithoutItsQuorumAfterTheTimeOfAnExchange) {
  Settings settings = small();
  settings.quorum = 2;
  Harness harness(settings);
  harness.start(2);
  harness.tell(kSecond, harness.delivery(0, 1));
  harness.tell(kSecond, StopRequested{"SIGTERM"});
  EXPECT_EQ(harness.machine.next_wakeup(), 3 * kSecond);  // tau = 2 steps of 1 s
  EXPECT_EQ(harness.tick_until(3 * kSecond),
            (std::vector<Action>{Discard{0, 0, 1, 0, "stopping"}, SaveGlobal{0},
                                 Finish{Outcome::stopped, "SIGTERM"}}));
}

TEST(Stop, EndsAtOnceWhenNobodyIsThere) {
  Harness harness(small());
  EXPECT_EQ(harness.tell(0, StopRequested{"SIGTERM"}),
            (std::vector<Action>{SaveGlobal{0}, Finish{Outcome::stopped, "SIGTERM"}}));
}

TEST(NobodyLeft, EndsWithACheckpointOfWhatIsNew) {
  Harness idle(small());
  EXPECT_EQ(idle.tell(0, NobodyLeft{"all are dead"}),
            (std::vector<Action>{Finish{Outcome::no_learners, "all are dead"}}));

  Settings settings = small();
  settings.token_budget = 0;
  Harness harness(settings);
  harness.start(2);
  finish_round(harness, kSecond, 1);
  harness.tell(kSecond, Merged{1, 0});
  for (const int island : {0, 1}) harness.tell(2 * kSecond, IslandLost{island, "killed"});
  EXPECT_EQ(harness.tell(2 * kSecond, NobodyLeft{"all are dead"}),
            (std::vector<Action>{SaveGlobal{1}, Finish{Outcome::no_learners, "all are dead"}}));
}

TEST(Stop, EndsCompletionEarly) {
  Harness harness(small());
  harness.start(2);
  harness.tell(kSecond, harness.report(0, 10));
  harness.tell(kSecond, harness.report(1, 10));
  harness.tell(kSecond, StopRequested{"SIGTERM"});
  const auto actions = harness.tick_until(100 * kSecond);
  EXPECT_EQ(actions.back(), (Action{Finish{Outcome::stopped, "SIGTERM"}}));
}

TEST(Checkpoints, AreTakenEverySoManyRoundsBetweenMerges) {
  Settings settings = small();
  settings.token_budget = 0;
  settings.checkpoint_rounds = 1;
  Harness harness(settings);
  harness.start(2);
  harness.tell(2 * kSecond, Tick{});  // round 2
  finish_round(harness, 2 * kSecond, 1);
  finish_round(harness, 2 * kSecond, 2);
  EXPECT_EQ(harness.tell(2 * kSecond, Merged{1, 0}), (std::vector<Action>{Publish{1, 0, 1}}));
  EXPECT_EQ(harness.tell(2 * kSecond, Merged{2, 0}),
            (std::vector<Action>{Publish{2, 1, 1}, SaveGlobal{2}}));
}

TEST(Checkpoints, AreTakenAfterSoMuchTimeOnceARoundHasClosed) {
  Settings settings = small();
  settings.token_budget = 0;
  settings.checkpoint_rounds = 1000;
  settings.checkpoint_after = 10 * kSecond;
  settings.suspect_after = settings.expel_after = 1000 * kSecond;
  Harness harness(settings);
  harness.start(2);
  EXPECT_TRUE(only<SaveGlobal>(harness.tick_until(20 * kSecond)).empty()) << "nothing was merged";
  finish_round(harness, 21 * kSecond, 1);
  EXPECT_EQ(only<SaveGlobal>(harness.tell(21 * kSecond, Merged{1, 0})),
            (std::vector<SaveGlobal>{{1}}));
  finish_round(harness, 22 * kSecond, 2);
  EXPECT_TRUE(only<SaveGlobal>(harness.tell(22 * kSecond, Merged{2, 0})).empty());
  EXPECT_TRUE(only<SaveGlobal>(harness.tell(31 * kSecond - 1, harness.report(0, 30))).empty());
  EXPECT_EQ(only<SaveGlobal>(harness.tell(31 * kSecond, harness.report(0, 31))),
            (std::vector<SaveGlobal>{{2}}));
  EXPECT_TRUE(only<SaveGlobal>(harness.tell(60 * kSecond, harness.report(0, 60))).empty());
}

TEST(Checkpoints, ThatAreDueHoldMergesBack) {
  Settings settings = small();
  settings.token_budget = 0;
  settings.checkpoint_rounds = 1;
  settings.fragments = 3;
  settings.interval = 6;
  settings.max_open_rounds = 3;
  Harness harness(settings);
  harness.start(2);
  harness.tell(2 * kSecond, Tick{});
  harness.tell(4 * kSecond, Tick{});  // rounds 1, 2 and 3 are open
  finish_round(harness, 4 * kSecond, 1);
  finish_round(harness, 4 * kSecond, 2);
  harness.tell(4 * kSecond, Merged{1, 0});  // a checkpoint is due, round 2 is being merged
  harness.tell(4 * kSecond, harness.delivery(0, 3));
  EXPECT_TRUE(harness.tell(4 * kSecond, harness.delivery(1, 3)).empty());
  const auto actions = harness.tell(4 * kSecond, Merged{2, 0});
  ASSERT_EQ(actions.size(), 3U);
  EXPECT_EQ(actions[0], (Action{Publish{2, 1, 1}}));
  EXPECT_EQ(actions[1], (Action{SaveGlobal{2}}));
  EXPECT_EQ(std::get<Merge>(actions[2]).round, 3);
}

}  // namespace
}  // namespace archipelago::sync
