#include "core/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace archipelago {
namespace {

TEST(Checksum, IsXxh3) {
  // XXH3-64 of nothing, from xxHash's own test vectors.
  EXPECT_EQ(to_hex(checksum({})), "2d06800538d394c2");
}

TEST(Checksum, SeedAndOrderMatter) {
  const std::string a = "one";
  const std::string b = "two";
  const auto sum = [](const std::string& text, std::uint64_t seed) {
    return checksum(std::as_bytes(std::span(text)), seed);
  };
  EXPECT_NE(sum(b, sum(a, 0)), sum(a, sum(b, 0)));
  EXPECT_NE(sum(a, 0), sum(a, 1));
}

TEST(Checksum, HexHasSixteenDigits) {
  EXPECT_EQ(to_hex(0xAB), "00000000000000ab");
  EXPECT_EQ(to_hex(UINT64_MAX), "ffffffffffffffff");
}

}  // namespace
}  // namespace archipelago
