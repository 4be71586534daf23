#include "core/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace archipelago {
namespace {

TEST(Units, BytesTakeTheUnitThatFits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(3.0 * 1024 * 1024 * 1024), "3.0 GiB");
  EXPECT_EQ(bytes_text(5000.0 * 1024 * 1024 * 1024 * 1024 * 1024), "5000.0 PiB");
}

TEST(Units, LossesFitTheirColumn) {
  EXPECT_EQ(loss_text(1.23456), "1.2346");
  EXPECT_EQ(loss_text(-0.5), "-0.5000");
  EXPECT_EQ(loss_text(999), "999.0000");
  EXPECT_EQ(loss_text(1e3), "1e+03");
  EXPECT_EQ(loss_text(1.2345e30), "1.23e+30");
  EXPECT_EQ(loss_text(std::nan("")), "not finite");
  EXPECT_EQ(loss_text(std::numeric_limits<double>::infinity()), "not finite");
}

TEST(Units, SecondsTakeTheUnitThatFits) {
  EXPECT_EQ(seconds_text(0.042), "0.04 s");
  EXPECT_EQ(seconds_text(35.4), "35 s");
  EXPECT_EQ(seconds_text(720), "12 min");
  EXPECT_EQ(seconds_text(12600), "3.5 h");
  EXPECT_EQ(seconds_text(700000), "8.1 days");
}

}  // namespace
}  // namespace archipelago
