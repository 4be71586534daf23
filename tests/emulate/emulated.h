#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "emulate/run.h"
#include "sync/tape_file.h"
#include "tests/runtime/tiny_setup.h"
#include "tests/runtime/tiny_text.h"

namespace archipelago::emulate {

// Emulated runs of a tiny model on a tiny text, in a folder of the test's own.
class Emulated : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("emulate_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    runtime::write_tiny_text(folder_ / "text.h5", 1);
    config_.data.path = (folder_ / "text.h5").string();
    config_.train.batch = 2;
    config_.train.steps = 80;
    config_.train.warmup = 3;
    config_.sync.learners = 3;
    config_.sync.fragments = 4;
    config_.sync.interval = 8;
    config_.sync.spares = 0;
    config_.checkpoint.learner_steps = 10;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  struct Played {
    Outcome outcome;
    std::string tape;
    std::vector<sync::TapeEntry> entries;
    sync::TapeStart start;
  };

  runtime::Setup make_setup() {
    dataset_ = data::open_dataset(config_.data.path);
    config::RunConfig fitted = config_;
    fitted.model = runtime::fit_model(config_.model, *dataset_, config_.data.path);
    runtime::Setup setup = runtime::make_setup(fitted);
    runtime::take_note_of(setup, *dataset_, config_.data.path);
    return setup;
  }

  Played play() {
    const runtime::Setup setup = make_setup();
    const auto out = folder_ / ("run" + std::to_string(++runs_));
    runtime::RunFolder run(out);
    run.open_for_one_start();
    if (!has_room_) take_room(run);
    if (is_stopped_) std::ofstream(run.stop()).close();
    Played played;
    {
      runtime::RunRecord record(run);
      played.outcome = emulate::Run(setup, *dataset_, conditions_, run, record).play();
    }
    std::ifstream file(run.events());
    std::stringstream text;
    text << file.rdbuf();
    played.tape = text.str();
    sync::TapeFile tape(run.events());
    while (const auto line = tape.next()) {
      if (line->kind == sync::LineKind::start) played.start = sync::decode_start(line->text);
      if (line->kind == sync::LineKind::entry) {
        played.entries.push_back(sync::decode_entry(line->text));
      }
    }
    last_run_ = out;
    return played;
  }

  // Not even root can make a file there.
  static void take_room(const runtime::RunFolder& run) {
    std::filesystem::remove(run.checkpoints());
    std::filesystem::create_symlink("/proc/self", run.checkpoints());
  }

  std::filesystem::path folder_;
  std::filesystem::path last_run_;
  bool has_room_ = true;     // for checkpoints
  bool is_stopped_ = false;  // at once, by the file `stop`
  int runs_ = 0;
  config::RunConfig config_ = runtime::tiny_config();
  Conditions conditions_;
  std::unique_ptr<data::Dataset> dataset_;
};

}  // namespace archipelago::emulate
