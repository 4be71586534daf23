#include "cli/scratch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

int dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(Scratch, OnlyWhatTheDeadHaveLeftBehindGoes) {
  const fs::path folder = fs::temp_directory_path() / ("scratch." + std::to_string(::getpid()));
  const std::string dead = std::to_string(dead_process());
  const auto named = [&](const std::string& name) {
    fs::create_directories(folder / name / "start");
    return folder / name;
  };
  const fs::path own = named("archipelago.h." + std::to_string(::getpid()));
  const fs::path left = named("archipelago.h." + dead);
  const fs::path stay[] = {own,
                           named("archipelago.h." + std::to_string(::getppid())),
                           named("archipelago.other." + dead),
                           named("checkpoints." + dead),
                           named("archipelago.h.notes"),
                           named("archipelago.h")};
  remove_left_behind(own);
  EXPECT_FALSE(fs::exists(left));
  for (const fs::path& each : stay) EXPECT_TRUE(fs::exists(each)) << each;
  fs::remove_all(folder);
}

TEST(Scratch, IsThereWhileItLives) {
  fs::path path;
  {
    const Scratch scratch;
    path = scratch.path();
    EXPECT_EQ(path, Scratch::name());
    EXPECT_TRUE(fs::is_directory(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace archipelago::cli
