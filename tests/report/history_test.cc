#include "report/history.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "recorded_run.h"

namespace archipelago::report {
namespace {

TEST(History, LaunchesFollowEachOther) {
  const RecordedRun run("launches");
  const History history = read_history(run.folder());
  EXPECT_EQ(history.launches, 2);
  EXPECT_EQ(history.learners, 2);
  EXPECT_DOUBLE_EQ(history.seconds, 4);  // 3 s, then 1 s; the line that was cut off is passed over
  ASSERT_EQ(history.steps.size(), 7U);
  EXPECT_DOUBLE_EQ(history.steps[5].t, 3.5);
  EXPECT_DOUBLE_EQ(history.steps[6].t, 4);
  EXPECT_DOUBLE_EQ(history.steps[6].loss, 1.25);
  EXPECT_FALSE(history.steps[6].joules.has_value());
}

TEST(History, TokensOfTheRunAreThoseOfEachLearnersNewestStep) {
  const RecordedRun run("tokens");
  std::vector<std::int64_t> tokens;
  for (const Step& step : read_history(run.folder()).steps) tokens.push_back(step.run_tokens);
  // Learner 1 comes back with 50 of its 100.
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{100, 200, 300, 250, 350, 450, 550}));
}

TEST(History, DeathsAreThoseOfLearnersInLaunchesThatTrained) {
  const RecordedRun run("deaths");
  const auto losses = read_history(run.folder()).losses;
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_DOUBLE_EQ(losses[0].t, 1.5);
  EXPECT_EQ(losses[0].learner, 1);
  EXPECT_EQ(losses[0].reason, "its leader died");
  EXPECT_DOUBLE_EQ(losses[1].t, 3.75);
  EXPECT_EQ(losses[1].learner, 0);
}

TEST(History, RoundsCountTheirContributors) {
  const RecordedRun run("rounds");
  const auto rounds = read_history(run.folder()).rounds;
  ASSERT_EQ(rounds.size(), 1U);
  EXPECT_EQ(rounds[0].contributors, 1);
  EXPECT_DOUBLE_EQ(rounds[0].wait_seconds, 0.5);
}

TEST(History, AFolderWithoutStepsIsRefused) {
  const RecordedRun run("empty");
  for (const char* text : {"", "no JSON\n", "[1]\n{\"t\":1}\n{\"t\":\"x\",\"learner\":0}\n"}) {
    run.write("metrics.jsonl", text);
    try {
      read_history(run.folder());
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      EXPECT_NE(std::string(error.what()).find(run.folder().string()), std::string::npos);
    }
  }
}

TEST(History, ForeignLinesOfTheTapeAreNoDeaths) {
  const RecordedRun run("foreign");
  run.write("events.jsonl",
            "{\"event\":\"island_lost\"\n[\"island_lost\",\"assign\"]\n"
            "{\"event\":{\"type\":\"island_lost\",\"island\":\"x\"},\"actions\":5}\n"
            "{\"event\":7,\"actions\":[{\"type\":\"assign\",\"island\":null}]}\n");
  EXPECT_TRUE(read_history(run.folder()).losses.empty());
}

}  // namespace
}  // namespace archipelago::report
