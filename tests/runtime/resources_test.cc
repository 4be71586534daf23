#include "runtime/resources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

TEST(RequireMemory, NamesBothSizes) {
  require_memory(3e9, 3e9);
  try {
    require_memory(4 << 20, 3 << 20);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("need 4 MiB of memory, it has 3;"), std::string::npos);
  }
}

class MemoryOfGroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "resources_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }

  double limit(const std::string& membership) const {
    write("membership", membership);
    return memory_of_group(root_ / "membership", root_);
  }

 private:
  std::filesystem::path root_;
};

TEST_F(MemoryOfGroup, IsTheLeastOfAllAround) {
  write("job/memory.max", "3000000\n");
  write("job/step/memory.max", "max\n");
  write("other/memory.max", "1\n");
  EXPECT_EQ(limit("0::/job/step\n"), 3e6);
  write("job/step/memory.max", "2000000\n");
  EXPECT_EQ(limit("0::/job/step\n"), 2e6);
}

TEST_F(MemoryOfGroup, ReadsVersionOne) {
  write("memory/job/memory.limit_in_bytes", "5000000\n");
  EXPECT_EQ(limit("3:cpu,cpuacct:/other\n2:memory:/job\n"), 5e6);
}

TEST_F(MemoryOfGroup, IsInfiniteWithoutOne) { EXPECT_TRUE(std::isinf(limit("0::/\n"))); }

TEST(RequireWindowRoom, CountsAWindowForEachLeader) {
  const link::MailboxLayout mailbox(4, 1000);
  require_window_room(mailbox, 3, 3 * mailbox.bytes(), "/dev/shm");
  try {
    require_window_room(mailbox, 3, 3 * mailbox.bytes() - 1, "/dev/shm");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("/dev/shm"), std::string::npos);
  }
}

}  // namespace
}  // namespace archipelago::runtime
