#include "core/program.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace archipelago {
namespace {

// What a command writes; "" where it fails.
std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) {
    text += part.data();
  }
  return ::pclose(pipe) == 0 ? text : "";
}

TEST(Program, BuildIdIsTheLinkers) {
  const std::string notes = output_of("readelf -n '" + program_file().string() + "' 2>/dev/null");
  if (notes.empty()) GTEST_SKIP() << "needs readelf";
  const std::string mark = "Build ID: ";
  const auto at = notes.find(mark);
  const auto end = notes.find('\n', at);
  EXPECT_EQ(build_id(),
            at == notes.npos ? "unknown" : notes.substr(at + mark.size(), end - at - mark.size()));
}

TEST(Program, FileIsThisOne) {
  EXPECT_TRUE(std::filesystem::equivalent(program_file(), "/proc/self/exe"));
}

}  // namespace
}  // namespace archipelago
