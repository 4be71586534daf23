#include "core/readable.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "core/error.h"

namespace archipelago {
namespace {

class Readable : public testing::Test {
 protected:
  Readable() { std::filesystem::create_directories(folder); }
  ~Readable() override { std::filesystem::remove_all(folder); }
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("readable-test-" + std::to_string(::getpid()));
};

TEST_F(Readable, AFileIsReadFromItsBeginning) {
  std::ofstream(folder / "some") << "first\nsecond\n";
  std::string line;
  std::getline(open_to_read(folder / "some").value(), line);
  EXPECT_EQ(line, "first");
  std::ofstream(folder / "empty").close();
  EXPECT_TRUE(open_to_read(folder / "empty").has_value());
  EXPECT_FALSE(open_to_read(folder / "none").has_value());
}

// Root may read any file, but no folder.
TEST_F(Readable, WhatCannotBeReadIsNamedWithTheReason) {
  try {
    open_to_read(folder);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find(folder.string()), std::string::npos);
    EXPECT_EQ(error.code().value(), EISDIR);
  }
}

TEST_F(Readable, FoldersAreRequired) {
  std::ofstream(folder / "file").close();
  EXPECT_NO_THROW(require_folder(folder));
  EXPECT_THROW(require_folder(folder / "none"), Error);
  EXPECT_THROW(require_folder(folder / "file"), Error);
}

TEST(Nesting, IsCountedOutsideOfTexts) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_FALSE(is_nested_too_deeply(nested(32)));
  EXPECT_TRUE(is_nested_too_deeply(nested(33)));
  EXPECT_FALSE(is_nested_too_deeply("[" + nested(31) + "," + nested(31) + "]"));
  EXPECT_FALSE(is_nested_too_deeply("{\"\\\"" + std::string(99, '{') + "\":1}"));
  EXPECT_TRUE(is_nested_too_deeply("{\"a\\\\\":" + nested(32) + "}"));
  EXPECT_TRUE(is_nested_too_deeply(std::string(100'000, '[')));  // cut off
}

}  // namespace
}  // namespace archipelago
