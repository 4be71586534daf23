#include "runtime/run_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/file.h"
#include "runtime/record_lines.h"

namespace archipelago::runtime {
namespace {

namespace fs = std::filesystem;

class RunRecordTest : public testing::Test {
 protected:
  RunRecordTest() { fs::create_directories(run_); }
  ~RunRecordTest() override { fs::remove_all(base_); }

  // What the log says until all of this has been written.
  std::string log_of(RunRecord& record) {
    testing::internal::CaptureStderr();
    record.add_metrics({{"t", 1}});
    record.add_event(nlohmann::json{{"t", 1}});
    record.write_status({{"state", "training"}});
    record.write_summary({});
    std::istringstream log(testing::internal::GetCapturedStderr());
    std::string said;
    for (std::string line; std::getline(log, line);) {
      if (line.find("summary") == line.npos) said += line + '\n';  // which has no place
    }
    return said;
  }

  fs::path base_ = fs::temp_directory_path() / ("run_record." + std::to_string(::getpid()));
  fs::path run_ = base_ / "run";
};

TEST_F(RunRecordTest, AFolderThatIsMovedAwayIsToldOnceAndWhenItIsBack) {
  const RunFolder folder(run_);
  RunRecord record(folder);
  EXPECT_EQ(log_of(record), "");
  fs::rename(run_, base_ / "moved");
  const std::string said = log_of(record);
  EXPECT_NE(said.find(run_.string() +
                      " is not this run's folder any more: events.jsonl was moved "
                      "to " +
                      (base_ / "moved" / "events.jsonl").string()),
            said.npos)
      << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_EQ(log_of(record), "");
  fs::create_directories(run_);  // an empty folder of that name is not the run's
  EXPECT_EQ(log_of(record), "");
  fs::remove_all(run_);
  fs::rename(base_ / "moved", run_);
  EXPECT_NE(log_of(record).find("is this run's folder again"), std::string::npos);
  EXPECT_EQ(log_of(record), "");
}

TEST_F(RunRecordTest, AFolderThatIsRemovedIsToldOnce) {
  const RunFolder folder(run_);
  RunRecord record(folder);
  EXPECT_EQ(log_of(record), "");
  fs::remove_all(run_);
  EXPECT_NE(log_of(record).find("events.jsonl was removed;"), std::string::npos);
  EXPECT_EQ(log_of(record), "");
}

TEST_F(RunRecordTest, WhatWasToldBeforeAFlushIsInTheFilesAfterIt) {
  const RunFolder folder(run_);
  RunRecord record(folder);
  record.flush();  // nothing to wait for
  std::atomic<bool> stopping = false;
  std::thread others([&] {
    while (!stopping) record.add_metrics({{"t", 1}});
  });
  for (int i = 0; i < 50; ++i) {
    const std::string mark = "mark " + std::to_string(i);
    record.add_event(std::string(mark));
    record.flush();
    const std::string events = read_file(folder.events());
    EXPECT_NE(events.find(mark + '\n'), events.npos);
  }
  stopping = true;
  others.join();
}

TEST(Score, OfNothingIsNone) {
  nlohmann::json object = nlohmann::json::object();
  add_score(object, "val", {0, 0.0, 0});
  EXPECT_TRUE(object.empty());
  add_score(object, "val", {1.5, std::nullopt, 7});
  EXPECT_EQ(object, (nlohmann::json{{"val_loss", 1.5}}));
  add_score(object, "val", {2.5, 0.5, 7});
  EXPECT_EQ(object, (nlohmann::json{{"val_loss", 2.5}, {"val_accuracy", 0.5}}));
}

}  // namespace
}  // namespace archipelago::runtime
