#include "report/history.h"

#include <gtest/gtest.h>

#include <system_error>

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

TEST(History, ValidationsOnTheWayAreNoRounds) {
  const RecordedRun run("validations");
  const History history = read_history(run.folder());
  ASSERT_EQ(history.validations.size(), 1U);
  EXPECT_DOUBLE_EQ(history.validations[0].t, 2.4);
  EXPECT_EQ(history.validations[0].run_tokens, 250);
  EXPECT_DOUBLE_EQ(history.validations[0].loss, 3.25);
  EXPECT_EQ(history.rounds.size(), 1U);
}

TEST(History, TokensOfTheRunAreThoseOfEachLearnersNewestStep) {
  const RecordedRun run("tokens");
  std::vector<std::int64_t> tokens;
  for (const Step& step : read_history(run.folder()).steps) tokens.push_back(step.run_tokens);
  // Learner 1 comes back with 50 of its 100.
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{100, 200, 300, 250, 350, 450, 550}));
}

TEST(History, StepsAreCountedFromTheRowBeforeOfTheirLife) {
  const RecordedRun run("since");
  const auto steps = read_history(run.folder()).steps;
  ASSERT_EQ(steps.size(), 7U);
  EXPECT_FALSE(steps[0].since.has_value());
  EXPECT_EQ(steps[0].gained, 100);
  EXPECT_DOUBLE_EQ(steps[2].since.value(), 1);
  EXPECT_EQ(steps[2].gained, 100);
  for (const std::size_t first : {3U, 5U, 6U}) {  // of other lives
    EXPECT_FALSE(steps[first].since.has_value()) << first;
    EXPECT_EQ(steps[first].gained, 0) << first;
  }
}

TEST(History, DeathsAreThoseOfLearnersInLaunchesThatTrained) {
  const RecordedRun run("deaths");
  const History history = read_history(run.folder());
  const auto& losses = history.departures;
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_DOUBLE_EQ(losses[0].t, 1.5);
  EXPECT_EQ(losses[0].learner, 1);
  EXPECT_EQ(losses[0].cause, Cause::died);
  EXPECT_EQ(losses[0].reason, "its leader died");
  EXPECT_DOUBLE_EQ(losses[1].t, 3.75);
  EXPECT_EQ(losses[1].learner, 0);
  EXPECT_EQ(history.rejoins, 1);
  ASSERT_EQ(history.events.size(), 1U);
  EXPECT_DOUBLE_EQ(history.events[0].t, 3);
  EXPECT_EQ(history.events[0].what, "launch 2; the one before broke off: its syncer died");
}

std::string step_row(double t, double step_seconds) {
  return "{\"t\":" + std::to_string(t) +
         ",\"learner\":0,\"incarnation\":0,\"tokens\":64,\"loss\":2,\"step_s\":" +
         std::to_string(step_seconds) + "}\n";
}

constexpr const char* kStart = "{\"settings\":{}}\n";
constexpr const char* kAssigned =
    R"({"t":1,"event":{"type":"island_ready"},"actions":[{"type":"assign","island":0,"learner":0}]})"
    "\n";

std::string report_at(std::int64_t t, double step_seconds) {
  return "{\"t\":" + std::to_string(t) +
         ",\"event\":{\"type\":\"report\",\"learner\":0,\"step_seconds\":" +
         std::to_string(step_seconds) + "},\"actions\":[]}\n";
}

std::string death_at(std::int64_t t) {
  return "{\"t\":" + std::to_string(t) +
         R"(,"event":{"type":"island_lost","island":0,"reason":"it died"},"actions":[]})"
         "\n";
}

std::string finish_at(std::int64_t t) {
  return "{\"t\":" + std::to_string(t) +
         R"(,"event":{"type":"tick"},"actions":[{"type":"finish","outcome":"stopped","reason":"stop"}]})"
         "\n";
}

// The times of the launches of the run.
std::vector<double> launches_of(const History& history) {
  std::vector<double> times;
  for (const Event& event : history.events) times.push_back(event.t);
  EXPECT_EQ(history.launches, static_cast<int>(times.size()) + 1);
  return times;
}

// Each gets further than the one before before it writes its first row.
TEST(History, ShortLaunchesAreNotOne) {
  const RecordedRun run("short");
  run.write("metrics.jsonl", step_row(0.5, 0.25) + step_row(0.75, 0.375) + step_row(0.75, 0.125) +
                                 step_row(1, 0.125));
  run.write("events.jsonl", std::string(kStart) + kAssigned + report_at(500'000'100, 0.25) +
                                death_at(625'000'000) + kStart + kAssigned +
                                report_at(750'000'100, 0.375) + death_at(875'000'000) + kStart +
                                kAssigned + report_at(750'000'100, 0.125) +
                                report_at(1'000'000'100, 0.125) + death_at(1'250'000'000));
  const History history = read_history(run.folder());
  EXPECT_EQ(launches_of(history), (std::vector<double>{0.625, 1.5}));
  std::vector<double> steps, deaths;
  for (const Step& step : history.steps) steps.push_back(step.t);
  for (const Departure& departure : history.departures) deaths.push_back(departure.t);
  EXPECT_EQ(steps, (std::vector<double>{0.5, 1.375, 2.25, 2.5}));
  EXPECT_EQ(deaths, (std::vector<double>{0.625, 1.5, 2.75}));
  EXPECT_DOUBLE_EQ(history.seconds, 2.75);
}

// It writes a checkpoint, and may validate one.
TEST(History, AStartThatIsStoppedBeforeItsFirstStepIsNoLaunch) {
  const RecordedRun run("untrained");
  run.write("metrics.jsonl", step_row(1, 0.25) + step_row(2, 0.25) +
                                 "{\"t\":0.25,\"checkpoint\":\"global-1.h5\",\"bytes\":1}\n"
                                 "{\"t\":0.5,\"validated_round\":1,\"val_loss\":3}\n" +
                                 step_row(0.125, 0.0625) + step_row(3, 0.25));
  run.write("events.jsonl", std::string(kStart) + kAssigned + report_at(1'000'000'000, 0.25) +
                                finish_at(2'000'000'000) + kStart + kAssigned +
                                finish_at(250'000'000) + kStart + kAssigned +
                                report_at(125'000'000, 0.0625) + death_at(500'000'000));
  const History history = read_history(run.folder());
  EXPECT_EQ(launches_of(history), (std::vector<double>{2}));
  ASSERT_EQ(history.steps.size(), 4U);
  EXPECT_DOUBLE_EQ(history.steps[2].t, 2.125);
  ASSERT_EQ(history.departures.size(), 1U);
  EXPECT_DOUBLE_EQ(history.departures[0].t, 2.5);
  EXPECT_TRUE(history.validations.empty());
}

// The standby goes on from the last entry that it knows.
TEST(History, ATakeoverIsNoLaunch) {
  const RecordedRun run("takeover");
  run.write("metrics.jsonl",
            step_row(1, 0.25) + step_row(2, 0.25) + step_row(1.75, 0.25) + step_row(2.5, 0.25));
  run.write("events.jsonl", std::string(kStart) + kAssigned + report_at(1'000'000'000, 0.25) +
                                "{\"takeover\":{\"term\":1,\"entries\":2},\"t\":1500000000}\n");
  const History history = read_history(run.folder());
  EXPECT_EQ(history.launches, 1);
  EXPECT_DOUBLE_EQ(history.steps[2].t, 2);
  EXPECT_DOUBLE_EQ(history.seconds, 2.5);
}

TEST(History, WithoutATapeALaunchBeginsWhereTimeGoesBack) {
  const RecordedRun run("no-tape");
  run.write("metrics.jsonl", step_row(1, 0.25) + step_row(2, 0.25) + step_row(1, 0.25));
  run.write("events.jsonl", "");
  const History history = read_history(run.folder());
  EXPECT_EQ(launches_of(history), (std::vector<double>{2}));
  EXPECT_DOUBLE_EQ(history.seconds, 3);
}

// As the machine counts: after its end nobody is lost.
TEST(Tape, ADeathAfterTheEndIsNoLoss) {
  const RecordedRun run("after-the-end");
  run.write("events.jsonl", std::string(kStart) + kAssigned + report_at(1'000'000'000, 0.25) +
                                finish_at(2'000'000'000) + death_at(2'500'000'000));
  const auto launches = read_tape(run.folder() / "events.jsonl");
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_TRUE(launches[0].departures.empty());
}

TEST(Tape, TellsWhoLeftAndHowALaunchEnded) {
  const RecordedRun run("tape");
  run.write("events.jsonl", R"({"settings":{}}
{"t":1,"event":{"type":"tick"},"actions":[{"type":"assign","island":0,"learner":0},{"type":"assign","island":1,"learner":1}]}
{"t":2000000000,"event":{"type":"tick"},"actions":[{"type":"expel","island":1,"learner":1,"reason":"silent"},{"type":"assign","island":2,"learner":1}]}
{"t":2500000000,"takeover":{"term":1,"entries":7}}
{"t":2700000000,"launcher":"gone"}
{"t":3000000000,"event":{"type":"scale_requested"},"actions":[{"type":"retire","island":0,"learner":0}]}
{"t":4000000000,"event":{"type":"island_lost","island":1,"reason":"its leader died"},"actions":[]}
{"t":5000000000,"event":{"type":"tick"},"actions":[{"type":"finish","outcome":"stopped","reason":"the file stop"}]}
)");
  const auto launches = read_tape(run.folder() / "events.jsonl");
  ASSERT_EQ(launches.size(), 1U);
  const Launch& launch = launches[0];
  ASSERT_EQ(launch.departures.size(), 2U);  // island 1 was a spare when it died
  EXPECT_EQ(launch.departures[0].cause, Cause::expelled);
  EXPECT_EQ(launch.departures[0].learner, 1);
  EXPECT_EQ(launch.departures[0].reason, "silent");
  EXPECT_EQ(launch.departures[1].cause, Cause::retired);
  EXPECT_EQ(launch.departures[1].learner, 0);
  EXPECT_EQ(launch.takeovers, (std::vector<double>{2.5}));
  EXPECT_EQ(launch.launcher_losses, (std::vector<double>{2.7}));
  EXPECT_EQ(launch.ending, "stopped: the file stop");
  EXPECT_FALSE(launch.first_report.has_value());
  EXPECT_DOUBLE_EQ(launch.seconds, 5);
}

TEST(Settings, AreThoseOfConfigIni) {
  const RecordedRun run("settings");
  run.write("config.ini", "# a run\nmethod = diloco\n\n[sync]\n; H\ninterval=24 \r\nodd\n");
  EXPECT_EQ(read_settings(run.folder()), (Settings{{"method", "diloco"}, {"sync.interval", "24"}}));
  EXPECT_FALSE(has_syncer(read_settings(run.folder())));
  EXPECT_TRUE(has_syncer({}));
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

TEST(History, WhatCannotBeReadIsNamed) {
  const RecordedRun run("unreadable");
  EXPECT_THROW(read_history(run.folder() / "none"), Error);
  for (const char* name : {"metrics.jsonl", "events.jsonl", "config.ini", "summary.json"}) {
    const RecordedRun damaged("damaged");
    std::filesystem::remove(damaged.folder() / name);
    std::filesystem::create_directory(damaged.folder() / name);
    try {
      read_history(damaged.folder());
      FAIL() << name;
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(History, DeeplyNestedLinesArePassedOver) {
  const RecordedRun run("nested");
  constexpr std::size_t kLevels = 100'000;
  const std::string nested = std::string(kLevels, '[') + std::string(kLevels, ']');
  run.write("summary.json", "{\"a\":" + nested + "}");
  run.write("metrics.jsonl", "{\"t\":1,\"contributors\":" + nested + "}\n" + step_row(1, 0.5));
  run.write("events.jsonl", std::string(kStart) +
                                "{\"t\":1,\"event\":{\"type\":\"island_lost\",\"x\":" + nested +
                                "},\"actions\":" + nested + "}\n");
  const History history = read_history(run.folder());
  EXPECT_EQ(history.steps.size(), 1U);
  EXPECT_TRUE(history.summary.is_null());
}

TEST(History, ForeignLinesOfTheTapeAreNoDeaths) {
  const RecordedRun run("foreign");
  run.write("events.jsonl",
            "{\"event\":\"island_lost\"\n[\"island_lost\",\"assign\"]\n"
            "{\"settings\":5}\n"
            "{\"event\":{\"type\":\"island_lost\",\"island\":\"x\"},\"actions\":5}\n"
            "{\"event\":7,\"actions\":[{\"type\":\"assign\",\"island\":null}]}\n");
  EXPECT_TRUE(read_history(run.folder()).departures.empty());
}

}  // namespace
}  // namespace archipelago::report
