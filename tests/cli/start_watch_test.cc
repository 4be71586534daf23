#include "cli/start_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cli/launch_plan.h"
#include "runtime/roll_call.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

class StartWatchTest : public testing::Test {
 protected:
  StartWatchTest() { fs::create_directories(run_); }
  ~StartWatchTest() override { fs::remove_all(folder_); }

  void come(int rank) {
    std::ofstream(roll_ / std::to_string(rank)) << "h" << rank << " 10" << rank << '\n';
    touch(rank);
  }
  // So that its time differs from the one before, however coarse the file system's clock.
  void touch(int rank) {
    const timespec times[] = {{0, UTIME_OMIT}, {++beats_, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (roll_ / std::to_string(rank)).c_str(), times, 0), 0);
  }
  void write_status(const std::string& state) {
    std::ofstream(run_ / "new") << "{\"state\":\"" << state << "\"}";
    fs::rename(run_ / "new", run_ / "status.json");
  }
  StartWatch watch() {
    return StartWatch(roll_, {"the syncer", "learner 0", "learner 1"}, run_ / "status.json", 20);
  }

  fs::path folder_ = fs::temp_directory_path() / ("start_watch." + std::to_string(::getpid()));
  fs::path run_ = folder_ / "run";
  fs::path roll_ = run_ / ".start";
  time_t beats_ = 1000;
};

TEST_F(StartWatchTest, TwoLaunchersOnOneFolderLeaveEachOtherAlone) {
  roll_ = runtime::roll_in_run(run_, "/dev/shm/archipelago.h.11");
  StartWatch first = watch();
  for (const int rank : {0, 1, 2}) come(rank);
  first.look(0);
  const fs::path rolls[] = {roll_, runtime::roll_in_run(run_, "/dev/shm/archipelago.h.12")};
  {
    roll_ = rolls[1];
    StartWatch second = watch();
    EXPECT_FALSE(second.anybody_came());
    roll_ = rolls[0];
    for (int now = 1; now < 40; ++now) {
      for (const int rank : {0, 1, 2}) touch(rank);
      first.look(now);
      ASSERT_EQ(first.missing(), "") << now;
    }
  }
  EXPECT_TRUE(fs::exists(rolls[0]));
  EXPECT_FALSE(fs::exists(rolls[1]));
}

TEST_F(StartWatchTest, NamesWhoHasNotComeAndWhoHasFallenSilent) {
  StartWatch start = watch();
  EXPECT_FALSE(start.anybody_came());
  come(0);
  come(1);
  for (int now = 0; now < 20; ++now) {
    touch(0);
    start.look(now);
    ASSERT_EQ(start.missing(), "") << now;
  }
  EXPECT_TRUE(start.anybody_came());
  touch(0);
  start.look(20);
  EXPECT_EQ(start.missing(),
            "rank 1 (learner 0) has given no sign of life (pid 101 on h1), "
            "rank 2 (learner 1) has not come for 20 s");
}

TEST_F(StartWatchTest, WaitsAsLongAsAllLive) {
  StartWatch start = watch();
  for (int rank = 0; rank < 3; ++rank) come(rank);
  write_status("starting");
  for (int now = 0; now < 1000; now += 4) {
    for (int rank = 0; rank < 3; ++rank) touch(rank);
    start.look(now);
    ASSERT_EQ(start.missing(), "") << now;
  }
}

TEST_F(StartWatchTest, EndsWithTheStart) {
  write_status("training");  // of the start before
  StartWatch start = watch();
  start.look(0);
  EXPECT_TRUE(fs::exists(roll_ / "0"));
  write_status("training");
  for (int now = 1; now < 100; ++now) start.look(now);
  EXPECT_EQ(start.missing(), "");
  EXPECT_TRUE(start.anybody_came());
  EXPECT_FALSE(fs::exists(roll_));
}

TEST_F(StartWatchTest, ItsOwnStandstillIsNobodysFault) {
  StartWatch start = watch();
  start.look(0);
  start.look(1000);
  EXPECT_EQ(start.missing(), "");
  for (int now = 1001; now < 1020; ++now) start.look(now);
  EXPECT_EQ(start.missing(), "none of the 3 ranks has come in 20 s");
}

TEST_F(StartWatchTest, LeavesNoFolderBehindThatItMadeForItself) {
  fs::remove_all(run_);
  { StartWatch start = watch(); }
  EXPECT_FALSE(fs::exists(run_));
  {
    StartWatch start = watch();
    write_status("starting");
  }
  EXPECT_TRUE(fs::exists(run_ / "status.json"));
  EXPECT_FALSE(fs::exists(roll_));
}

TEST_F(StartWatchTest, WithoutAFolderItWatchesNothing) {
  StartWatch start("/proc/archipelago/.start", {"the syncer"}, run_ / "status.json", 20);
  for (int now = 0; now < 100; ++now) start.look(now);
  EXPECT_EQ(start.missing(), "");
}

TEST(LaunchPlan, SaysWhatEachRankPlays) {
  config::RunConfig config;
  config.sync.learners = 2;
  config.sync.spares = 1;
  config.sync.ranks_per_learner = 2;
  config.sync.standby = 1;
  std::vector<std::string> parts;
  for (int rank = 0; rank < world_size(config); ++rank) parts.push_back(part_of_rank(config, rank));
  EXPECT_EQ(parts, (std::vector<std::string>{
                       "the syncer", "standby 1", "learner 0", "rank 1 of learner 0", "learner 1",
                       "rank 1 of learner 1", "spare 0", "rank 1 of spare 0"}));
}

}  // namespace
}  // namespace archipelago::cli
