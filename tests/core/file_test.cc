#include "core/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <iterator>
#include <system_error>
#include <vector>

namespace archipelago {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("core_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::size_t count_files() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  std::filesystem::path folder_;
};

TEST_F(FileTest, WritesReplacesAndReads) {
  const auto path = folder_ / "a";
  const std::string binary("\0\n\xff", 3);
  for (const std::string& text : {std::string(200'000, 'x'), std::string(), binary}) {
    write_file(path, text, Durability::flushed);
    EXPECT_EQ(read_file(path), text);
  }
  EXPECT_EQ(count_files(), 1u);
}

TEST_F(FileTest, ErrorsNameThePath) {
  const auto path = folder_ / "absent" / "a";
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { write_file(path, "x", Durability::unflushed); },
                                          [&] { read_file(path); }, [&] { AppendFile{path}; }}) {
    try {
      call();
      FAIL();
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find((folder_ / "absent").string()), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(FileTest, WhatIsLongerThanTheLimitIsNotRead) {
  const auto path = folder_ / "a";
  write_file(path, std::string(1000, 'x'), Durability::unflushed);
  EXPECT_EQ(read_file(path, 1000).size(), 1000u);
  EXPECT_THROW(read_file(path, 999), std::system_error);
  EXPECT_THROW(read_file("/dev/zero", 1 << 20), std::system_error);
}

TEST_F(FileTest, AppendClosesALineThatWasCutOff) {
  const auto path = folder_ / "a";
  AppendFile(path).append("one\n");
  write_file(path, "one\ntw", Durability::unflushed);
  AppendFile file(path);
  file.append("three\n");
  file.append("four\n");
  EXPECT_EQ(read_file(path), "one\ntw\nthree\nfour\n");
}

// The temporary file of a process that is killed while it writes.
std::filesystem::path leave_temporary(const std::filesystem::path& folder, pid_t process) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const auto path =
      folder / (std::string(".a.h5.") + host + '.' + std::to_string(process) + ".0.tmp");
  write_file(path, "part", Durability::unflushed);
  return path;
}

pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST_F(FileTest, OnlyOldTemporariesOfTheDeadAreStale) {
  const auto hour_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  const auto stale = leave_temporary(folder_, dead_process());
  const auto of_a_living = leave_temporary(folder_, getpid());
  const auto elsewhere = folder_ / ".a.h5.otherhost.1.0.tmp";
  const auto foreign = folder_ / ".notes.tmp";
  for (const auto& path : {elsewhere, foreign}) write_file(path, "x", Durability::unflushed);

  remove_stale_temporaries(folder_);
  EXPECT_EQ(count_files(), 4u) << "a file that was just written is not stale";
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::last_write_time(entry.path(), hour_ago);
  }
  remove_stale_temporaries(folder_);
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(of_a_living));
  EXPECT_TRUE(std::filesystem::exists(elsewhere));
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST_F(FileTest, AnAppendThatFailsLeavesNothingBehind) {
  const auto path = folder_ / "lines";
  AppendFile file(path);
  file.append("one\n");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_THROW(file.append("two\nthree\nfour\n"), std::system_error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path), "one\n");
}

}  // namespace
}  // namespace archipelago
