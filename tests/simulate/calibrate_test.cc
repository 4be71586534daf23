#include "simulate/calibrate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "simulate/decoupled.h"
#include "simulate/site.h"
#include "sync/machine.h"
#include "sync/tape.h"

namespace archipelago::simulate {
namespace {

class Calibrate : public testing::Test {
 protected:
  Calibrate() { std::filesystem::create_directories(run); }
  ~Calibrate() override { std::filesystem::remove_all(run); }
  std::filesystem::path run =
      std::filesystem::temp_directory_path() / ("calibrate-test-" + std::to_string(::getpid()));
};

// The tape of a run whose truth is known: 4 learners of unequal speed, two spares, deaths.
TEST_F(Calibrate, PredictsTheRunThatItWasReadFrom) {
  Scenario scenario;
  scenario.cluster.chips = 4;
  scenario.cluster.slice = 1;
  scenario.failure.mtbf_hours = 0.05;
  scenario.failure.return_seconds = 4;
  scenario.restart.down = 0;
  scenario.restart.join = 0.7;
  scenario.train.days = 600.0 / 86400;
  scenario.train.step_seconds = 0.05;
  scenario.train.spread = 0.1;
  scenario.train.batch_tokens = 4096;
  scenario.link.latency = {0.001};
  scenario.sync.learners = 4;
  scenario.sync.fragments = 6;
  scenario.sync.interval = 12;
  scenario.sync.suspect = 2;
  scenario.sync.expel = 30;
  scenario.sync.spares = 2;
  scenario.sync.merge_seconds = 0.002;
  sync::Settings settings;
  settings.learners = 4;
  settings.fragments = 6;
  settings.interval = 12;
  settings.grace_cap = to_nanoseconds(1e9);
  settings.suspect_after = to_nanoseconds(2);
  settings.expel_after = to_nanoseconds(30);
  settings.outlier = 0;
  settings.spares = 2;
  settings.batch_tokens = 1024;
  settings.checkpoint_rounds = 1LL << 60;
  std::ofstream tape(run / "events.jsonl");
  tape << sync::encode_start({settings, {}}) << "\n";
  const Outcome truth = simulate_decoupled(
      scenario, 11, Reports::every_step,
      [&](Nanoseconds now, const sync::Event& event, const std::vector<sync::Action>& actions) {
        tape << sync::encode_entry(now, event, actions) << "\n";
      });
  tape << R"({"t":1,"ev)";  // cut off
  tape.close();

  const ObservedRun observed = observe_run(run.string());
  EXPECT_GT(observed.outcome.losses, 5);
  EXPECT_EQ(observed.outcome.losses, truth.losses);
  EXPECT_EQ(static_cast<double>(observed.outcome.rounds), truth.rounds);
  EXPECT_NEAR(goodput_of(observed, observed.outcome), truth.goodput, 0.02);
  const RunOutcome predicted = run_again(observed.recorded);
  EXPECT_EQ(predicted.losses, observed.outcome.losses);
  EXPECT_NEAR(goodput_of(observed, predicted) / goodput_of(observed, observed.outcome), 1, 0.03);
  EXPECT_NEAR(static_cast<double>(predicted.rounds) / truth.rounds, 1, 0.03);
  for (std::size_t learner = 0; learner < 4; ++learner) {
    EXPECT_EQ(static_cast<double>(observed.outcome.contributions[learner]),
              truth.contributions[learner]);
    EXPECT_NEAR(
        static_cast<double>(predicted.contributions[learner]) / truth.contributions[learner], 1,
        0.05);
  }
}

// The tape of a real run of the quickstart's model: three learners on two
// cores, learner 1 killed at its step 70.
TEST(CalibrateReal, PredictsARunOfRealRanksWithinFivePercent) {
  const ObservedRun run = observe_run(ARCHIPELAGO_KILLED_RUN);
  const RunOutcome predicted = run_again(run.recorded);
  EXPECT_EQ(run.outcome.losses, 1);
  EXPECT_EQ(predicted.losses, 1);
  EXPECT_GT(run.outcome.rounds, 200);
  const auto expect_near = [](double simulated, double real) {
    EXPECT_NEAR(simulated / real, 1, 0.05) << simulated << " for " << real;
  };
  expect_near(goodput_of(run, predicted), goodput_of(run, run.outcome));
  expect_near(static_cast<double>(predicted.rounds), static_cast<double>(run.outcome.rounds));
  ASSERT_EQ(run.outcome.contributions.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    expect_near(static_cast<double>(predicted.contributions[i]),
                static_cast<double>(run.outcome.contributions[i]));
  }
}

TEST_F(Calibrate, NamesWhatIsMissing) {
  EXPECT_THROW(observe_run((run / "none").string()), Error);
  std::ofstream(run / "events.jsonl") << "{}\n";
  EXPECT_THROW(observe_run(run.string()), Error);
}

}  // namespace
}  // namespace archipelago::simulate
