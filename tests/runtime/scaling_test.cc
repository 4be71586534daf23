#include "runtime/scaling.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file.h"

namespace archipelago::runtime {
namespace {

class ScalingTest : public testing::Test {
 protected:
  ScalingTest() { std::filesystem::remove(file_); }
  ~ScalingTest() override { std::filesystem::remove(file_); }

  std::optional<int> ask(const std::string& text) {
    write_file(file_, text, Durability::unflushed);
    return scaling_.take(file_);
  }

  std::filesystem::path file_ = std::filesystem::path(testing::TempDir()) / "scaling_test_scale";
  Scaling scaling_;
};

TEST_F(ScalingTest, ANumberIsTakenOnce) {
  EXPECT_EQ(scaling_.take(file_), std::nullopt);
  EXPECT_EQ(ask(" 12\n"), std::nullopt) << "a number and nothing before it";
  EXPECT_EQ(ask("12\n"), 12);
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_EQ(scaling_.take(file_), std::nullopt);
  EXPECT_EQ(scaling_.status(),
            (nlohmann::json{{"requests", 2}, {"learners", 12}, {"refused", nullptr}}));
}

TEST_F(ScalingTest, WhatIsNoNumberIsRefusedAndTakenAway) {
  for (const char* text : {"many\n", "3 or 4\n", "99999999999\n", "\n"}) {
    EXPECT_EQ(ask(text), std::nullopt);
    EXPECT_FALSE(std::filesystem::exists(file_));
    EXPECT_TRUE(scaling_.status()["refused"].is_string()) << text;
  }
}

TEST_F(ScalingTest, AnEmptyFileIsStillBeingWritten) {
  EXPECT_EQ(ask(""), std::nullopt);
  EXPECT_TRUE(std::filesystem::exists(file_));
  EXPECT_EQ(scaling_.status()["requests"], 0);
}

TEST_F(ScalingTest, ARefusalStandsUntilTheNextRequest) {
  ask("5");
  scaling_.refuse("too many");
  EXPECT_EQ(scaling_.status()["refused"], "too many");
  EXPECT_EQ(ask("2"), 2);
  EXPECT_TRUE(scaling_.status()["refused"].is_null());
}

}  // namespace
}  // namespace archipelago::runtime
