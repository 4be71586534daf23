#include "replay/replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "config/options.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/random.h"
#include "fragment/contributions.h"
#include "runtime/global_state.h"
#include "runtime/machine_settings.h"
#include "runtime/run_folder.h"
#include "sync/machine.h"
#include "sync/norms.h"
#include "sync/tape.h"

namespace archipelago::replay {
namespace {

constexpr int kLearners = 2;

config::RunConfig tiny_config() {
  config::RunConfig config;
  config.model = {.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 16};
  config.train.batch = 1;
  config.train.steps = 1'000'000;
  config.sync.learners = kLearners;
  config.sync.fragments = 3;
  config.sync.interval = 3;
  config.sync.outlier = 0;
  config.checkpoint.global_rounds = 4;
  config.record = "fragments";
  return config;
}

// A run without processes, whose learners answer every ask with noise.
class FakeRun {
 public:
  explicit FakeRun(const config::RunConfig& config)
      : folder(std::filesystem::temp_directory_path() /
               ("replay-test-" + std::to_string(::getpid()))),
        files_(folder),
        setup_(runtime::make_setup(config)) {
    for (auto& group : setup_.data.groups) group.windows = 1000;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(files_.checkpoints());
    std::ofstream(files_.config()) << config::write_ini(config);
  }
  ~FakeRun() { std::filesystem::remove_all(folder); }

  void start(const std::optional<checkpoint::Global>& restored = {}) {
    state_.emplace(restored ? runtime::GlobalState(setup_, *restored)
                            : runtime::GlobalState(setup_));
    const auto settings = runtime::machine_settings(setup_);
    machine_.emplace(settings, runtime::restored_from(restored));
    chain_ = sync::TapeChain();
    lines.push_back(chain_.seal(sync::encode_start({settings, runtime::restored_from(restored)})));
    begin_life();
    forget_rounds();
    entries_ = 0;
    for (int island = 0; island < kLearners; ++island) tell(sync::IslandReady{island});
  }

  // Every learner makes a step, and what it was asked for arrives and is merged.
  void step() {
    ++steps_;
    for (int learner = 0; learner < kLearners; ++learner) {
      tell(sync::Report{learner, incarnations_[learner], steps_, steps_ * 4, 0.001, 1.5,
                        machine_->versions()});
    }
    for (const sync::Ask& ask : std::exchange(asks_, {})) {
      auto values = *state_->theta(ask.fragment);
      for (float& value : values) value += static_cast<float>(random_.normal());
      given_[{ask.round, ask.learner, ask.incarnation}] = values;
      sync::SquaredNorms squares(setup_.pieces[static_cast<std::size_t>(ask.fragment)]);
      squares.add(*state_->theta(ask.fragment), values, std::ssize(values));
      tell(sync::Delivery{ask.learner, ask.incarnation, ask.round, ask.fragment, 0, 2, 8,
                          steps_ * 4, 1.5, squares.norm()});
    }
    for (const std::int64_t round : std::exchange(merging_, {})) {
      state_->adopt(std::move(merged_.extract(round).mapped()));
      tell(sync::Merged{round, 0.0001});
    }
  }

  // The syncer dies after `unknown` more steps that the standby has not heard of.
  void take_over(int unknown) {
    const sync::Machine machine = *machine_;
    const runtime::GlobalState state = *state_;
    const sync::TapeChain chain = chain_;
    const std::int64_t entries = entries_;
    for (int i = 0; i < unknown; ++i) step();
    lines.push_back(lines.back().substr(0, 30));
    machine_.emplace(machine);
    state_.emplace(state);
    chain_ = chain;
    entries_ = entries;
    add_row({{"takeover", {{"term", 1}, {"entries", entries}}}});
    begin_life();
    forget_rounds();
    tell(sync::SyncerReplaced{1});
  }

  checkpoint::Global save() const {
    checkpoint::Global state;
    state_->fill(state);
    state.round = machine_->rounds();
    for (const auto& view : machine_->learners()) {
      state.incarnations.push_back(view.incarnation);
      state.merged_tokens.insert(state.merged_tokens.end(), view.merged_tokens.begin(),
                                 view.merged_tokens.end());
    }
    return state;
  }

  void tell(const sync::Event& event) {
    now_ += 400'000;
    std::vector<sync::Action> actions;
    machine_->handle(now_, event, actions);
    for (const auto& action : actions) keep(action);
    lines.push_back(chain_.seal(sync::encode_entry(now_, event, actions)));
    ++entries_;
    for (const auto& action : actions) act(action);
  }

  Replayed replayed(const std::string& unfinished = "") const {
    std::ofstream tape(files_.events());
    for (const std::string& line : lines) tape << line << "\n";
    tape << unfinished;
    tape.close();
    return replay(folder);
  }

  // Number in the file of the first line from `from` on that holds the text.
  int find(const std::string& text, int from = 1) const {
    for (int i = from; i <= std::ssize(lines); ++i) {
      if (lines[i - 1].find(text) != std::string::npos) return i;
    }
    ADD_FAILURE() << text << " is not on the tape";
    return 1;
  }

  std::filesystem::path folder;
  std::vector<std::string> lines;
  std::optional<checkpoint::Global> saved;

 private:
  void begin_life() {
    const int life = fragment::next_life(files_.contributions());
    writer_.emplace(files_.contributions(), life);
    add_row({{"contributions",
              {{"life", life},
               {"merge", setup_.config.sync.merge},
               {"outer_lr", setup_.config.sync.outer_lr},
               {"outer_momentum", setup_.config.sync.outer_momentum}}}});
  }

  void add_row(const nlohmann::json& row) { lines.push_back(sync::TapeChain().seal(row.dump())); }

  void forget_rounds() {
    asks_.clear();
    merging_.clear();
    merged_.clear();
  }

  void keep(const sync::Action& action) {
    const auto* merge = std::get_if<sync::Merge>(&action);
    if (merge == nullptr) return;
    std::vector<sync::MergeInput> inputs;
    for (const auto& part : merge->contributions) {
      const auto& values = given_.at({merge->round, part.learner, part.incarnation});
      writer_->add({merge->round, part.learner, part.incarnation}, values);
      inputs.push_back({values, part.weight});
    }
    merged_[merge->round] = state_->merge(merge->fragment, inputs);
    merging_.push_back(merge->round);
  }

  void act(const sync::Action& action) {
    if (const auto* assign = std::get_if<sync::Assign>(&action)) {
      incarnations_[assign->learner] = assign->incarnation;
    } else if (const auto* ask = std::get_if<sync::Ask>(&action)) {
      asks_.push_back(*ask);
    } else if (const auto* snapshot = std::get_if<sync::SaveGlobal>(&action)) {
      saved = save();
      add_row({{"t", now_},
               {"snapshot", {{"round", snapshot->round}, {"theta", to_hex(state_->digest())}}}});
    }
  }

  runtime::RunFolder files_;
  runtime::Setup setup_;
  std::optional<runtime::GlobalState> state_;
  std::optional<sync::Machine> machine_;
  sync::TapeChain chain_;
  std::optional<fragment::ContributionWriter> writer_;
  Random random_{7};
  sync::Nanoseconds now_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t entries_ = 0;
  int incarnations_[kLearners] = {};
  std::vector<sync::Ask> asks_;
  std::map<fragment::ContributionKey, std::vector<float>> given_;
  std::map<std::int64_t, runtime::GlobalState::MergedFragment> merged_;
  std::vector<std::int64_t> merging_;
};

class Replays : public testing::Test {
 protected:
  void steps(int count) {
    for (int i = 0; i < count; ++i) run.step();
  }
  void expect_named(int line) const {
    const std::string expected = "events.jsonl:" + std::to_string(line) + ": ";
    const std::string difference = run.replayed().difference;
    EXPECT_NE(difference.find(expected), std::string::npos) << difference << " for " << expected;
  }

  FakeRun run{tiny_config()};
};

TEST_F(Replays, GiveTheSameDecisionsAndTheSameTheta) {
  run.start();
  steps(60);
  run.tell(sync::StopRequested{"enough"});
  steps(2);
  const Replayed replayed = run.replayed();
  EXPECT_EQ(replayed.difference, "");
  EXPECT_EQ(replayed.theta_unknown, "");
  EXPECT_GT(replayed.merges, 40);
  EXPECT_EQ(replayed.contributions, 2 * replayed.merges);
  EXPECT_GT(replayed.snapshots, 10);
  EXPECT_EQ(replayed.recomputed, replayed.snapshots);
  EXPECT_EQ(replayed.end, "enough");
  EXPECT_TRUE(replayed.cuts.empty());
}

TEST_F(Replays, FollowATapeThatWasCutOffToItsEnd) {
  run.start();
  steps(20);
  const std::string next = run.lines.back();
  run.lines.pop_back();
  const Replayed replayed = run.replayed(next.substr(0, next.size() - 5));
  EXPECT_EQ(replayed.difference, "");
  EXPECT_EQ(replayed.cuts, std::vector<std::int64_t>{std::ssize(run.lines) + 1});
  EXPECT_EQ(replayed.end, "");
  EXPECT_GT(replayed.recomputed, 0);
  // The checksum of a line may be all that is missing of it.
  EXPECT_EQ(run.replayed(next.substr(0, next.size() - 1)).cuts.size(), 1U);
}

TEST_F(Replays, GoOnWithAStandby) {
  run.start();
  steps(20);
  run.take_over(3);
  steps(20);
  const Replayed replayed = run.replayed();
  EXPECT_EQ(replayed.difference, "");
  EXPECT_EQ(replayed.theta_unknown, "");
  EXPECT_EQ(replayed.takeovers, 1);
  EXPECT_GE(replayed.superseded, 3 * kLearners);
  EXPECT_GT(replayed.recomputed, 5);
}

TEST_F(Replays, GoOnWhereTheRunWasTakenUpAgain) {
  run.start();
  steps(21);
  const checkpoint::Global saved = *run.saved;
  steps(1);
  run.lines.push_back(run.lines.back().substr(0, 30));  // it was killed
  run.start(saved);
  steps(20);
  const Replayed replayed = run.replayed();
  EXPECT_EQ(replayed.difference, "");
  EXPECT_EQ(replayed.theta_unknown, "");
  EXPECT_EQ(replayed.starts, 2);
  EXPECT_EQ(replayed.cuts.size(), 1U);
  EXPECT_EQ(replayed.recomputed, replayed.snapshots);
}

TEST_F(Replays, CompareTheCheckpointFilesThatAreLeft) {
  run.start();
  steps(30);
  checkpoint::Global saved = *run.saved;
  checkpoint::save(run.folder / "checkpoints", saved, 3);
  EXPECT_EQ(run.replayed().checkpoints, 1);
  saved.common.parameters[3] += 1e-6F;
  checkpoint::save(run.folder / "checkpoints", saved, 3);
  EXPECT_NE(run.replayed().difference.find("the checkpoint of round"), std::string::npos);
}

TEST_F(Replays, NameAChangedLine) {
  run.start();
  steps(20);
  const auto lines = run.lines;
  for (const char* kind : {"\"type\":\"report\"", "\"merge\"", "snapshot", "\"settings\""}) {
    const int line = run.find(kind);
    std::string& text = run.lines[line - 1];
    const std::size_t digit = text.find_first_of("123456789");
    text[digit] = text[digit] == '9' ? '8' : '9';
    expect_named(line);
    run.lines = lines;
  }
  const int line = run.find("\"type\":\"delivery\"");
  run.lines[line - 1].resize(40);
  expect_named(line);
  run.lines = lines;
  run.lines.erase(run.lines.begin() + line - 1);
  expect_named(line);  // what stands in its place
}

TEST_F(Replays, NameADecisionThatIsOtherNow) {
  run.start();
  steps(5);
  // A line as another version of the program might have written it.
  sync::TapeChain chain;
  const int line = run.find("\"type\":\"ask\"");
  for (int i = 1; i <= std::ssize(run.lines); ++i) {
    std::string& text = run.lines[i - 1];
    const bool chained = text.starts_with("{\"settings\"") || text.starts_with("{\"t\":");
    if (!chained || text.find("snapshot") != std::string::npos) continue;
    text = text.substr(0, text.rfind(",\"sum\"")) + "}";
    if (i == line) text.replace(text.find("\"fragment\":0"), 12, "\"fragment\":1");
    text = chain.seal(text);
  }
  expect_named(line);
}

TEST_F(Replays, FindAChangedContribution) {
  run.start();
  steps(20);
  const auto file = run.folder / "tape" / "0-0.contributions";
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file));
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(size / 2);
    stream.put('\x55');
  }
  EXPECT_NE(run.replayed().difference.find("0-0.contributions"), std::string::npos);
}

TEST_F(Replays, SayWhereThetaIsUnknown) {
  run.start();
  steps(20);
  const auto file = run.folder / "tape" / "0-0.contributions";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const Replayed replayed = run.replayed();
  EXPECT_EQ(replayed.difference, "");
  EXPECT_GT(replayed.recomputed, 0);
  EXPECT_LT(replayed.recomputed, replayed.snapshots);
  EXPECT_NE(replayed.theta_unknown.find("was not kept"), std::string::npos);
}

TEST(Replay, AFolderWithoutARunIsRefused) { EXPECT_THROW(replay("/nonexistent"), Error); }

}  // namespace
}  // namespace archipelago::replay
