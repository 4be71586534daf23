#include "runtime/resources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "tests/runtime/tiny_setup.h"

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

TEST(WindowBytes, AreOfEverySyncerOnTheHostForEachLeader) {
  const runtime::Setup setup = tiny_setup(4, 2);
  const Layout layout{2, 3, 3, 1};  // the third is a standby, of all fragments
  std::uint64_t bytes[3];
  for (int syncer = 0; syncer < 3; ++syncer) {
    const Share share = syncer < 2 ? Share{syncer, 2} : Share{};
    bytes[syncer] = 3 * mailbox_layout(setup, share).bytes();
  }
  std::vector<island::Member> ranks(6, {"one", 1});
  EXPECT_EQ(window_bytes(setup, layout, ranks, "one"), bytes[0] + bytes[1] + bytes[2]);
  ranks[1].host = "two";
  EXPECT_EQ(window_bytes(setup, layout, ranks, "one"), bytes[0] + bytes[2]);
  EXPECT_EQ(window_bytes(setup, layout, ranks, "two"), bytes[1]);
  EXPECT_EQ(window_bytes(setup, layout, ranks, "three"), 0U);
}

TEST(RequireWindowRoom, NamesTheFolderThatIsTooSmall) {
  require_window_room(3000, 3, 3000, "/dev/shm");
  try {
    require_window_room(3000, 3, 2999, "/dev/shm");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("/dev/shm"), std::string::npos);
  }
}

}  // namespace
}  // namespace archipelago::runtime
