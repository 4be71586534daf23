#include "runtime/lifeline.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

namespace archipelago::runtime {
namespace {

namespace fs = std::filesystem;

class LifelineTest : public testing::Test {
 protected:
  LifelineTest() {
    fs::create_directories(run_);
    ::setenv("OMPI_MCA_btl_sm_backing_directory", scratch_.c_str(), 1);
  }
  ~LifelineTest() override {
    ::unsetenv("OMPI_MCA_btl_sm_backing_directory");
    fs::remove_all(run_);
  }

  // A process that does this, standing apart where there is a launcher.
  pid_t start(const std::function<void()>& play) const {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    stand_apart(run_);
    play();
    ::_exit(0);
  }

  static int status_of(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
  }

  // Who plays, once it does.
  pid_t player() const {
    pid_t pid = 0;
    while (!(std::ifstream(run_ / "player") >> pid)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return pid;
  }

  std::function<void()> play_until_killed() const {
    return [file = run_ / "player"] {
      {
        std::ofstream stream(file.string() + ".tmp");
        stream << ::getpid() << '\n';
      }
      fs::rename(file.string() + ".tmp", file);
      for (;;) ::pause();
    };
  }

  fs::path run_ = fs::temp_directory_path() / ("lifeline." + std::to_string(::getpid()));
  // As the job's launcher names it to its ranks.
  fs::path scratch_ = run_ / "archipelago.h1.17";
  fs::path file_ = lifeline_file(run_, scratch_);
};

TEST_F(LifelineTest, ABeatIsReadAsItWasWritten) {
  EXPECT_FALSE(read_beat(file_));
  write_beat(file_, {"h1.17.1", 0});
  const auto size = fs::file_size(file_);
  write_beat(file_, {"h1.17.1", 1'000'000'007});
  EXPECT_EQ(fs::file_size(file_), size);
  const auto beat = read_beat(file_);
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->launcher, "h1.17.1");
  EXPECT_EQ(beat->count, 1'000'000'007);
  EXPECT_THROW(write_beat(run_ / "missing" / "file", *beat), std::system_error);
}

TEST_F(LifelineTest, HoldsAsLongAsTheCountGoesUp) {
  Lifeline lifeline(file_, "h1.17.1");
  std::int64_t count = 0;
  for (int look = 0; look < 100; ++look) {
    if (look % 50 == 0) write_beat(file_, {"h1.17.1", ++count});
    EXPECT_TRUE(lifeline.holds(1)) << look;
    EXPECT_EQ(lifeline.is_slack(), look % 50 >= 30) << look;
  }
  for (int look = 0; look < 10; ++look) EXPECT_TRUE(lifeline.holds(1)) << look;
  EXPECT_FALSE(lifeline.holds(1));  // a minute after the last change
}

TEST_F(LifelineTest, DoesNotHoldForAnotherStart) {
  Lifeline lifeline(file_, "h1.17.1");
  write_beat(file_, {"h1.17.1", 1});
  EXPECT_TRUE(lifeline.holds(1));
  write_beat(file_, {"h1.17.2", 2});
  EXPECT_FALSE(lifeline.holds(1));
}

TEST_F(LifelineTest, DoesNotHoldOnceTheFileIsGone) {
  Lifeline lifeline(file_, "h1.17.1");
  write_beat(file_, {"h1.17.1", 1});
  EXPECT_TRUE(lifeline.holds(1));
  fs::remove(file_);
  EXPECT_TRUE(lifeline.holds(1));  // a network's file system may err for a moment
  EXPECT_TRUE(lifeline.holds(1));
  EXPECT_FALSE(lifeline.holds(1));
}

TEST_F(LifelineTest, WithoutOneNobodyStandsApart) {
  write_beat(lifeline_file(run_, "archipelago.h1.18"), {"h1.18.1", 1});  // another launcher's
  const pid_t pid = start(play_until_killed());
  EXPECT_EQ(player(), pid);
  ::kill(pid, SIGTERM);
  EXPECT_EQ(WTERMSIG(status_of(pid)), SIGTERM);
}

TEST_F(LifelineTest, EndsAsTheOneDoesThatPlays) {
  write_beat(file_, {"h1.17.1", 1});
  EXPECT_EQ(WEXITSTATUS(status_of(start([] { ::_exit(75); }))), 75);
  const pid_t pid = start(play_until_killed());
  ::kill(player(), SIGKILL);
  EXPECT_EQ(WTERMSIG(status_of(pid)), SIGKILL);
}

TEST_F(LifelineTest, TheOneThatPlaysIsOutOfReachOfTheDaemon) {
  write_beat(file_, {"h1.17.1", 1});
  const pid_t pid = start(play_until_killed());
  const pid_t playing = player();
  ASSERT_NE(playing, pid);
  EXPECT_EQ(::getsid(playing), playing);
  ::kill(pid, SIGTERM);
  ::kill(pid, SIGKILL);
  EXPECT_EQ(WTERMSIG(status_of(pid)), SIGKILL);
  EXPECT_EQ(::kill(playing, 0), 0);
  ::kill(playing, SIGKILL);
}

}  // namespace
}  // namespace archipelago::runtime
