#include "cli/job_signs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

// A shell command as a child, killed at the end.
class Child {
 public:
  explicit Child(const char* command) : pid_(::fork()) {
    if (pid_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command, nullptr);
      ::_exit(127);
    }
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

template <typename Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(RanksWatch, SeesThatAllChildrenAreDeadThoughNobodyWaitsForThem) {
  // `sleep` never collects the child that it inherits from the shell.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string go = "read line <&" + std::to_string(ends[0]) + " & exec sleep 600";
  const Child child(go.c_str());
  RanksWatch watch(child.pid());
  const std::string name_file = "/proc/" + std::to_string(child.pid()) + "/comm";
  wait_until([&] {
    std::string name;
    std::ifstream(name_file) >> name;
    return name == "sleep";
  });
  EXPECT_FALSE(watch.are_gone());
  ASSERT_EQ(::write(ends[1], "\n", 1), 1);
  wait_until([&] { return watch.are_gone(); });
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(RanksWatch, OfAProcessThatHasHadNoChildrenSaysNothing) {
  const Child child("exec sleep 600");
  RanksWatch watch(child.pid());
  EXPECT_FALSE(watch.are_gone());
}

class StandstillWatchTest : public testing::Test {
 protected:
  StandstillWatchTest() { fs::create_directories(folder_); }
  ~StandstillWatchTest() override { fs::remove_all(folder_); }

  // Each one differs from those before, however coarse the file system's clock.
  void write_status(const std::string& state) {
    const std::string file = folder_ / "status.json";
    std::ofstream(file) << R"({"state":")" << state << R"(","syncer":{"pid":7,"host":"a"}})";
    const timespec times[] = {{0, UTIME_OMIT}, {++written_, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }

  fs::path folder_ = fs::temp_directory_path() / ("standstill." + std::to_string(::getpid()));
  time_t written_ = 1000;
};

TEST_F(StandstillWatchTest, CountsWhileAStatusOfTrainingStays) {
  write_status("training");  // of the start before
  StandstillWatch watch(folder_);
  for (int now = 0; now <= 100; ++now) watch.look(now);
  EXPECT_EQ(watch.seconds(), 0);
  write_status("training");
  for (int now = 101; now <= 120; ++now) watch.look(now);
  EXPECT_EQ(watch.seconds(), 19);
  EXPECT_EQ(watch.syncer(), "the syncer (pid 7 on a)");
  write_status("training");
  watch.look(121);
  EXPECT_EQ(watch.seconds(), 0);
}

TEST_F(StandstillWatchTest, AnEndingRunMayTakeItsTime) {
  StandstillWatch watch(folder_);
  write_status("training");
  watch.look(0);
  write_status("done");
  for (int now = 1; now <= 100; ++now) watch.look(now);
  EXPECT_EQ(watch.seconds(), 0);
}

TEST_F(StandstillWatchTest, ItsOwnStandstillIsNobodysFault) {
  StandstillWatch watch(folder_);
  write_status("training");
  watch.look(0);
  watch.look(1000);
  watch.look(2000);
  EXPECT_LE(watch.seconds(), 4);
}

}  // namespace
}  // namespace archipelago::cli
