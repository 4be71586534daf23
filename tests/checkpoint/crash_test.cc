#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <system_error>

#include "checkpoint/checkpoint.h"
#include "checkpoint/damage.h"
#include "checkpoint/names.h"
#include "example_state.h"

namespace archipelago::checkpoint {
namespace {

// Runs `work` in a process of its own, which ends with its return value, 70 for an exception.
pid_t in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    _exit(work());
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    _exit(70);
  }
}

int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Crash, KilledWritersLeaveOnlyWholeCheckpoints) {
  const TemporaryFolder folder;
  save(folder.path(), example_global(1, 1), 2);
  Random random(11);
  for (int kill_number = 0; kill_number < 40; ++kill_number) {
    const std::int64_t last = list_global(folder.path()).front().number;
    const pid_t writer = in_child([&folder, last]() -> int {
      for (std::int64_t round = last + 1;; ++round) {
        save(folder.path(), example_global(round, static_cast<std::uint64_t>(round)), 2);
      }
    });
    usleep(static_cast<useconds_t>(random.below(40'000)));
    kill(writer, SIGKILL);
    ASSERT_EQ(exit_code_of(writer), -SIGKILL);

    const auto files = list_global(folder.path());
    ASSERT_GE(files.front().number, last);
    for (const NamedFile& file : files) EXPECT_TRUE(find_damage(file.path).empty()) << file.path;
    const auto newest = newest_global(folder.path());
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->round, files.front().number);
    expect_same(*newest, example_global(newest->round, static_cast<std::uint64_t>(newest->round)));
  }
}

// What a process that can't write reports: 0 when save() threw std::system_error.
int save_and_fail(const std::filesystem::path& folder) {
  try {
    save(folder, example_global(2), 1);
  } catch (const std::system_error&) {
    return 0;
  }
  return 1;
}

TEST(FullDisk, LeavesTheOldCheckpointAndNothingElse) {
  const TemporaryFolder folder;
  save(folder.path(), example_global(1), 1);
  const pid_t writer = in_child([&folder] {
    // A file may not grow beyond 100,000 bytes.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    return save_and_fail(folder.path());
  });
  EXPECT_EQ(exit_code_of(writer), 0);
  EXPECT_EQ(listing(folder.path()), (std::vector<std::string>{global_name(1)}));
  expect_same(load_global(folder.path() / global_name(1)), example_global(1));
}

constexpr int kNoNamespace = 77;

// Puts a file system of this size over `folder`, for this process alone; false where that is
// forbidden.
bool mount_small(const std::filesystem::path& folder, const char* size) {
  const std::string user = "0 " + std::to_string(getuid()) + " 1";
  const std::string group = "0 " + std::to_string(getgid()) + " 1";
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user;
  std::ofstream("/proc/self/gid_map") << group;
  return mount("tmpfs", folder.c_str(), "tmpfs", 0, size) == 0;
}

TEST(FullDisk, ARealFullFileSystemIsAnErrorToo) {
  const TemporaryFolder folder;
  const pid_t writer = in_child([&folder] {
    if (!mount_small(folder.path(), "size=3m")) return kNoNamespace;
    save(folder.path(), example_global(1), 1);
    if (save_and_fail(folder.path()) != 0) return 1;
    if (listing(folder.path()) != std::vector<std::string>{global_name(1)}) return 2;
    return newest_global(folder.path())->round == 1 ? 0 : 3;
  });
  const int code = exit_code_of(writer);
  if (code == kNoNamespace) GTEST_SKIP() << "this machine lets nobody mount a tmpfs";
  EXPECT_EQ(code, 0);
}

// In its place, which takes no room.
void flip_last_byte(const std::filesystem::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-1, std::ios::end);
  const auto last = static_cast<char>(stream.get() ^ 1);
  stream.seekp(-1, std::ios::end);
  stream.put(last);
}

TEST(FullDisk, OlderCheckpointsMakeRoomForTheNextUnlessTheNewestIsDamaged) {
  const TemporaryFolder folder;
  const pid_t writer = in_child([&folder] {
    constexpr int kKeep = 9;
    const auto path = [&](std::int64_t round) { return folder.path() / global_name(round); };
    if (!mount_small(folder.path(), "size=8m")) return kNoNamespace;
    for (const std::int64_t round : {1, 2, 3}) save(folder.path(), example_global(round), kKeep);
    flip_last_byte(path(3));
    try {
      save(folder.path(), example_global(4), kKeep);
      return 1;
    } catch (const std::system_error&) {
    }
    if (listing(folder.path()).size() != 3) return 2;
    flip_last_byte(path(3));
    save(folder.path(), example_global(4), kKeep);
    const std::vector<std::string> left = {global_name(3), global_name(4)};
    if (listing(folder.path()) != left) return 3;
    return newest_global(folder.path())->round == 4 ? 0 : 4;
  });
  const int code = exit_code_of(writer);
  if (code == kNoNamespace) GTEST_SKIP() << "this machine lets nobody mount a tmpfs";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace archipelago::checkpoint
