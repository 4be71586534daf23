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
  sync::TapeChain chain;
  tape << chain.seal(sync::encode_start({settings, {}})) << "\n";
  const Outcome truth = simulate_decoupled(
      scenario, 11, Reports::every_step,
      [&](Nanoseconds now, const sync::Event& event, const std::vector<sync::Action>& actions) {
        tape << chain.seal(sync::encode_entry(now, event, actions)) << "\n";
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

void expect_refused(const std::string& run, const std::string& words) {
  try {
    observe_run(run);
    FAIL() << words;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(Calibrate, NamesWhatIsMissing) {
  expect_refused((run / "none").string(), "no folder");
  expect_refused(run.string(), "no event tape");
  std::ofstream(run / "events.jsonl") << "{}\n";
  expect_refused(run.string(), "no start");
}

// The lines of a run that was recorded.
std::vector<std::string> recorded_lines() {
  std::ifstream tape(ARCHIPELAGO_KILLED_RUN "/events.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(tape, line);) lines.push_back(line);
  return lines;
}

void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines) {
  std::ofstream out(file);
  for (const std::string& line : lines) out << line << "\n";
}

std::string replaced(std::string text, const std::string& old, const std::string& other) {
  const std::size_t place = text.find(old);
  EXPECT_NE(place, std::string::npos) << old;
  return text.replace(place, old.size(), other);
}

TEST_F(Calibrate, ADamagedTapeIsRefusedAtItsLine) {
  const std::vector<std::string> sound = recorded_lines();
  auto lines = sound;
  lines[0] = replaced(lines[0], "\"fragments\":24", "\"fragments\":0");
  write_lines(run / "events.jsonl", lines);
  expect_refused(run.string(), "events.jsonl:1: the line does not fit its checksum");
  lines = sound;
  lines.erase(lines.begin() + 300);
  write_lines(run / "events.jsonl", lines);
  expect_refused(run.string(), "events.jsonl:301: the line does not fit its checksum");
}

TEST_F(Calibrate, SettingsThatNoRunCanHaveAreRefused) {
  const std::string start = sync::encode_start({{}, {}});
  for (const auto& [name, other] : std::vector<std::pair<std::string, std::string>>{
           {"\"fragments\":24", "\"fragments\":0"},
           {"\"learners\":3", "\"learners\":2000000000"},
           {"\"batch_tokens\":1", "\"batch_tokens\":0"},
           {"\"sequence_tokens\":1", "\"sequence_tokens\":0"},
           {"\"interval\":24.0", "\"interval\":\"7ff8000000000000\""},
           {"\"shards\":[]", "\"shards\":[4]"}}) {
    const std::string changed = replaced(start, name, other);
    std::string setting = other.substr(1);
    setting.resize(setting.find('"'));
    if (name.starts_with("\"sequence_tokens") || name.starts_with("\"shards")) setting = "";
    write_lines(run / "events.jsonl", {sync::TapeChain().seal(changed)});
    expect_refused(run.string(), "events.jsonl:1: no run can have ");
    expect_refused(run.string(), setting);
  }
}

TEST_F(Calibrate, EntriesOfNoSuchRunAreRefused) {
  for (const auto& [event, action] : std::vector<std::pair<sync::Event, sync::Action>>{
           {sync::Tick{}, sync::Ask{0, 0, 1, 24}},
           {sync::Tick{}, sync::Assign{0, -1, 0, 0}},
           {sync::Tick{}, sync::Merge{1, 0, {{2'000'000'000, 0, 1}}}},
           {sync::Report{0, 0, 1, 1, 1, 1, {1}}, sync::Pause{}}}) {
    sync::TapeChain chain;
    std::vector<std::string> lines = {chain.seal(sync::encode_start({{}, {}}))};
    lines.push_back(chain.seal(sync::encode_entry(1, event, std::vector<sync::Action>{action})));
    write_lines(run / "events.jsonl", lines);
    expect_refused(run.string(), "events.jsonl:2: the run has no such ");
  }
}

}  // namespace
}  // namespace archipelago::simulate
