#include "cli/job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>

#include "core/file.h"

namespace archipelago::cli {
namespace {

// Runs a shell's script as a job; what the job wrote to standard error is captured.
class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("archipelago-job-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::string> shell(const std::string& script) {
    return {"/bin/sh", "-c", script};
  }
  static JobWatch never_over() {
    return {[] { return false; }, [](int) {}};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(JobTest, GivesTheExitCode) {
  EXPECT_EQ(Job(shell("exit 65"), {}).wait(never_over()).code, 65);
  EXPECT_EQ(Job(shell("kill -9 $$"), {}).wait(never_over()).code, 128 + SIGKILL);
  EXPECT_EQ(Job({"/nonexistent/program"}, {}).wait(never_over()).code, 127);
}

TEST_F(JobTest, GoesOnAfterTheProgramAsLongAsItIsTold) {
  int asked = 0;
  const JobEnd end = Job(shell("exit 3"), {})
                         .wait({[] { return false; }, [](int) {}, [&] { return ++asked < 3; }});
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(asked, 3);
}

TEST_F(JobTest, ASignalBetweenTwoJobsIsForTheNextWhereSignalsAreHeld) {
  sigset_t before;
  ::sigprocmask(SIG_SETMASK, nullptr, &before);
  hold_signals();
  Job(shell("exit 0"), {}).wait(never_over());
  ::kill(::getpid(), SIGTERM);
  Job next(shell("exec sleep 600"), {});
  const auto end_it = [&](int signal) {
    EXPECT_EQ(signal, SIGTERM);
    ::kill(next.pid(), SIGKILL);
  };
  EXPECT_EQ(next.wait({[] { return false; }, end_it}).code, 128 + SIGKILL);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(JobTest, DropsStandardErrorWhereItIsToldTo) {
  ::testing::internal::CaptureStderr();
  Job(shell("echo one >&2; printf two >&2"), {}, Errors::dropped).wait(never_over());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(JobTest, SetsTheEnvironment) {
  EXPECT_EQ(Job(shell("exit $CODE"), {{"CODE", "7"}}).wait(never_over()).code, 7);
}

TEST_F(JobTest, PassesStandardErrorOn) {
  ::testing::internal::CaptureStderr();
  Job job(shell("echo one >&2; printf 'two' >&2"), {});
  job.wait(never_over());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "one\ntwo");
}

TEST_F(JobTest, OutlivesTheReaderOfItsOutput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[0]);
  ::close(ends[1]);
  const JobEnd end = Job(shell("echo one >&2; sleep 0.1; exit 75"), {}).wait(never_over());
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::cerr.clear();
  EXPECT_EQ(end.code, 75);
}

TEST_F(JobTest, TellsOfSignalsAndGoesOnWaiting) {
  // The job ends when the file is there, which the signal's handler makes.
  const std::string file = path("stop");
  Job job(shell("while ! [ -e " + file + " ]; do sleep 0.05; done; exit 75"), {});
  std::vector<int> received;
  ::kill(::getpid(), SIGUSR1);
  const JobEnd end = job.wait({[] { return false; },
                               [&](int signal) {
                                 received.push_back(signal);
                                 write_file(file, "", Durability::unflushed);
                               }});
  EXPECT_EQ(end.code, 75);
  EXPECT_FALSE(end.interrupted);
  EXPECT_EQ(received, std::vector<int>{SIGUSR1});
}

TEST_F(JobTest, ASecondInterruptEndsItAtOnce) {
  Job job(shell("trap '' TERM INT; while :; do sleep 0.05; done"), {});
  ::kill(::getpid(), SIGINT);
  const JobEnd end = job.wait({[] { return false; }, [](int) { ::kill(::getpid(), SIGINT); }});
  EXPECT_TRUE(end.interrupted);
  EXPECT_EQ(end.code, 128 + SIGKILL);
}

TEST_F(JobTest, EndsAChildThatDoesNotEndItself) {
  Job deaf(shell("trap '' TERM; while :; do sleep 0.05; done"), {});
  EXPECT_EQ(deaf.wait({[] { return true; }, [](int) {}}).code, 128 + SIGKILL);
}

TEST_F(JobTest, LeavesNothingBehind) {
  // The grandchild leaves its process group and parent before it says its number.
  Job job(shell("setsid sh -c 'echo $$ > " + path("pid") + "; exec sleep 1000' & " +
                "while ! [ -s " + path("pid") + " ]; do sleep 0.05; done"),
          {});
  job.wait(never_over());
  const pid_t grandchild = std::stoi(read_file(path("pid")));
  EXPECT_EQ(::kill(grandchild, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace archipelago::cli
