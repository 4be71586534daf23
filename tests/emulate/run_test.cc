#include "emulate/run.h"

#include <algorithm>
#include <map>
#include <variant>

#include "checkpoint/checkpoint.h"
#include "config/options.h"
#include "core/file.h"
#include "replay/replay.h"
#include "tests/emulate/emulated.h"
#include "tests/sync/invariants.h"

namespace archipelago::emulate {
namespace {

class EmulatedRun : public Emulated {
 protected:
  // Everything that can happen.
  void expect_trouble() {
    config_.train.steps = 300;
    config_.chaos =
        "kill learner=any every=80; slow learner=1 time=20 factor=3 seconds=90; "
        "stop learner=2 time=50 seconds=12; kill learner=0 time=100 when=join";
    config_.sync.spares = 1;
    config_.wire = {"int8", "bf16"};
    conditions_ = {.step_seconds = {1, 1.4},
                   .gbps = {2e-6, 4e-6},
                   .latency = {0.01, 0.2},
                   .jitter = 0.1,
                   .merge_seconds = 0.1,
                   .join_seconds = 4,
                   .return_seconds = 30};
  }

  // Tells the tape's events to another machine and watches that one.
  static std::string broken_invariant(const Played& played) {
    sync::Machine machine(played.start.settings, played.start.restored);
    sync::Invariants invariants(played.start.settings, played.start.restored, machine);
    std::vector<sync::Action> actions;
    for (const auto& entry : played.entries) {
      actions.clear();
      machine.handle(entry.time, entry.event, actions);
      if (actions != entry.actions) return "decided otherwise";
      const std::string broken = invariants.check(entry.time, entry.event, actions);
      if (!broken.empty()) return broken;
    }
    return invariants.check_end();
  }
};

TEST_F(EmulatedRun, TheSameOptionsGiveTheSameBits) {
  config_.sync.quorum = config_.sync.learners;
  const Played first = play();
  const Played second = play();
  EXPECT_EQ(first.outcome.end, sync::Outcome::complete);
  EXPECT_EQ(first.outcome.losses, 0);
  EXPECT_EQ(first.outcome.contributors, config_.sync.learners);
  EXPECT_EQ(first.outcome.parameters, second.outcome.parameters);
  EXPECT_EQ(first.tape, second.tape);
  config_.train.seed = 2;
  EXPECT_NE(first.outcome.parameters, play().outcome.parameters);
}

TEST_F(EmulatedRun, TroubleComesTheSameWayAgain) {
  expect_trouble();
  const Played first = play();
  const Played second = play();
  EXPECT_EQ(first.outcome.end, sync::Outcome::complete);
  EXPECT_GT(first.outcome.losses, 2);
  EXPECT_GT(first.outcome.rejoins, 2);
  EXPECT_EQ(first.outcome.parameters, second.outcome.parameters);
  EXPECT_EQ(first.tape, second.tape);
}

TEST_F(EmulatedRun, KeepsEveryInvariantInTrouble) {
  expect_trouble();
  for (config_.train.seed = 1; config_.train.seed <= 5; ++config_.train.seed) {
    for (const int quorum : {1, 3}) {
      config_.sync.quorum = quorum;
      EXPECT_EQ(broken_invariant(play()), "") << "seed " << config_.train.seed << " K " << quorum;
    }
  }
}

TEST_F(EmulatedRun, ReplayMakesTheSameThetaOfIt) {
  expect_trouble();
  config_.record = "fragments";
  config_.checkpoint.global_rounds = 20;
  const runtime::Setup setup = make_setup();
  play();
  write_file(last_run_ / "config.ini", config::write_ini(setup.config), Durability::unflushed);
  const replay::Replayed replayed = replay::replay(last_run_);
  EXPECT_EQ(replayed.difference, "");
  EXPECT_EQ(replayed.theta_unknown, "");
  EXPECT_GT(replayed.snapshots, 3);
  EXPECT_EQ(replayed.recomputed, replayed.snapshots);
  EXPECT_EQ(replayed.checkpoints, 1);
}

// Without delays every step that was made is told, so what deaths took is known from outside: a
// life begins where the one before had been merged, and nothing else is trained again.
TEST_F(EmulatedRun, ADeathLosesWhatWasNotMerged) {
  config_.train.steps = 200;
  config_.chaos = "kill learner=1 time=30.6; kill learner=2 time=60.2; kill learner=1 time=90.9";
  conditions_.join_seconds = 3;
  conditions_.return_seconds = 0;
  conditions_.merge_seconds = 0;
  const Played played = play();
  const auto fragments = static_cast<std::size_t>(played.start.settings.fragments);
  struct Life {
    std::int64_t tokens = 0;
    std::vector<std::int64_t> merged;
    std::map<std::int64_t, std::int64_t> delivered;  // round -> at_tokens
  };
  std::map<int, Life> lives;
  std::int64_t lost = 0;
  int deaths = 0;
  for (const auto& entry : played.entries) {
    if (const auto* report = std::get_if<sync::Report>(&entry.event)) {
      lives[report->learner].tokens = report->tokens;
    } else if (const auto* delivery = std::get_if<sync::Delivery>(&entry.event)) {
      lives[delivery->learner].delivered[delivery->round] = delivery->at_tokens;
    }
    for (const auto& action : entry.actions) {
      if (const auto* assign = std::get_if<sync::Assign>(&action)) {
        Life& life = lives[assign->learner];
        if (assign->incarnation > 0) {
          std::int64_t sum = 0;
          for (const std::int64_t tokens : life.merged) sum += tokens;
          const auto mean = sum / static_cast<std::int64_t>(fragments);
          EXPECT_EQ(assign->tokens, mean - mean % played.start.settings.batch_tokens);
          lost += life.tokens - assign->tokens;
          ++deaths;
        }
        life = {assign->tokens, std::vector<std::int64_t>(fragments, assign->tokens), {}};
      } else if (const auto* merge = std::get_if<sync::Merge>(&action)) {
        for (const auto& part : merge->contributions) {
          Life& life = lives[part.learner];
          life.merged.at(static_cast<std::size_t>(merge->fragment)) =
              life.delivered.at(merge->round);
        }
      }
    }
  }
  EXPECT_EQ(deaths, 3);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(played.outcome.losses, 3);
  EXPECT_EQ(played.outcome.trained_tokens - played.outcome.tokens, lost);
  EXPECT_EQ(broken_invariant(played), "");
}

TEST_F(EmulatedRun, TimeIsWhatStepsTake) {
  config_.sync.quorum = config_.sync.learners;
  conditions_.merge_seconds = 0;
  Outcome outcome = play().outcome;
  EXPECT_GE(outcome.seconds, 80);
  EXPECT_LT(outcome.seconds, 84);  // the last rounds
  EXPECT_EQ(outcome.tokens, outcome.trained_tokens);
  EXPECT_GT(outcome.goodput, 0.95);

  // Speeds of 1, 1 and 1/2 train the same tokens in 80 * 3 / 2.5 seconds, and nobody waits.
  conditions_.step_seconds = {1, 1, 2};
  config_.sync.quorum = 1;
  outcome = play().outcome;
  EXPECT_GE(outcome.seconds, 96);
  EXPECT_LT(outcome.seconds, 103);
  EXPECT_LT(outcome.contributors, 3);

  // The slow plan that stands for the same.
  conditions_.step_seconds = {1};
  config_.chaos = "slow learner=2 time=0 factor=2 seconds=1000000";
  EXPECT_NEAR(play().outcome.seconds, outcome.seconds, 3);
}

TEST_F(EmulatedRun, AnEndlessOneIsStopped) {
  config_.chaos = "kill learner=any every=0.5";
  config_.sync.learners = 1;
  conditions_.join_seconds = 5;
  conditions_.return_seconds = 5;
  config_.sync.expel = 80'000;
  const Outcome outcome = play().outcome;
  EXPECT_EQ(outcome.end, sync::Outcome::stopped);
  EXPECT_NE(outcome.reason.find("100 times"), std::string::npos);
}

TEST_F(EmulatedRun, EndsWhereNobodyIsLeft) {
  config_.chaos = "kill learner=any time=20 victims=3";
  config_.sync.expel = 40;
  conditions_.join_seconds = 4;
  conditions_.return_seconds = 1e7;
  const Outcome outcome = play().outcome;
  EXPECT_EQ(outcome.end, sync::Outcome::no_learners);
  EXPECT_EQ(outcome.reason, runtime::kNobodyLeft);
  EXPECT_EQ(outcome.losses, 3);
  EXPECT_NEAR(outcome.seconds, 20 + 40, 4);  // and what a round takes
  EXPECT_FALSE(outcome.unsaved);
}

TEST_F(EmulatedRun, GoesOnWhereSomebodyReturnsInTime) {
  config_.chaos = "kill learner=any time=20 victims=3";
  config_.sync.expel = 80'000;
  conditions_.join_seconds = 4;
  conditions_.return_seconds = 50;
  const Outcome outcome = play().outcome;
  EXPECT_EQ(outcome.end, sync::Outcome::complete);
  EXPECT_EQ(outcome.rejoin_s.size(), 3U);
  for (const double seconds : outcome.rejoin_s) EXPECT_GT(seconds, 4);
}

TEST_F(EmulatedRun, EndsInOrderWhenAskedTo) {
  is_stopped_ = true;
  const Outcome outcome = play().outcome;
  EXPECT_EQ(outcome.end, sync::Outcome::stopped);
  EXPECT_EQ(outcome.reason, runtime::kStopOfUser);
  EXPECT_FALSE(std::filesystem::exists(last_run_ / "stop"));
  EXPECT_TRUE(checkpoint::newest_global(last_run_ / "checkpoints").has_value());
}

TEST_F(EmulatedRun, OutlivesALastCheckpointThatFindsNoRoom) {
  const Outcome whole = play().outcome;
  EXPECT_FALSE(whole.unsaved);
  has_room_ = false;
  const Outcome outcome = play().outcome;
  EXPECT_TRUE(outcome.unsaved);
  EXPECT_EQ(outcome.end, sync::Outcome::complete);
  EXPECT_EQ(outcome.parameters, whole.parameters);
}

// A fragment would be on its way for longer than time lasts.
TEST_F(EmulatedRun, ALinkMayBeAsSlowAsItLikes) {
  conditions_.gbps = {1e-20};
  const Outcome nothing = play().outcome;
  EXPECT_EQ(nothing.end, sync::Outcome::stopped);
  EXPECT_EQ(nothing.tokens, 0);
  conditions_.gbps = {0, 0, 1e-20};
  EXPECT_EQ(play().outcome.end, sync::Outcome::complete);
}

TEST(Timeline, EndsBeforeItsNumbersDo) {
  static_assert(after(7, 2) == 2'000'000'007);
  static_assert(after(7, 1e200) == kEndOfTime);
  static_assert(after(kEndOfTime - 5, 1) == kEndOfTime);
  static_assert(after(kEndOfTime, 1e200) == kEndOfTime);
}

}  // namespace
}  // namespace archipelago::emulate
