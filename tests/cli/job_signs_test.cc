#include "cli/job_signs.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

namespace archipelago::cli {
namespace {

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

}  // namespace
}  // namespace archipelago::cli
