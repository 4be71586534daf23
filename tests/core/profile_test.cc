#include "core/profile.h"

#include <gtest/gtest.h>

#include <string>

namespace archipelago {
namespace {

std::string told;

TEST(Profile, AddsUpRangesOnlyWhenAskedTo) {
  set_profile_hooks(
      {[](const char* name) { told += std::string("<") + name; }, [] { told += ">"; }});
  { const ProfileRange range("before"); }
  EXPECT_EQ(profile_summary(), "");
  EXPECT_EQ(told, "");
  start_profiling();
  for (const char* name : {"one", "two", "one"}) const ProfileRange range(name);
  EXPECT_EQ(told, "<one><two><one>");
  const std::string summary = profile_summary();
  EXPECT_EQ(summary.find("one 0.00 s ("), 0U) << summary;
  EXPECT_NE(summary.find("%), two 0.00 s ("), std::string::npos) << summary;
  EXPECT_EQ(summary.find("before"), std::string::npos);
}

}  // namespace
}  // namespace archipelago
