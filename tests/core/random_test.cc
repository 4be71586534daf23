#include "core/random.h"

#include <gtest/gtest.h>

#include <array>

namespace archipelago {
namespace {

// Steele, Lea, Flood 2014; the outputs of their reference code for seed 1234567.
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  for (const std::uint64_t expected :
       {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
        4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(random.next(), expected);
  }
}

TEST(Random, StateIsAllThereIs) {
  Random random(5);
  random.normal();
  Random again(random.state());
  EXPECT_EQ(random.next(), again.next());
}

TEST(Random, MomentsAreThoseOfTheDistributions) {
  constexpr int kDraws = 100'000;
  Random random(1);
  std::array<double, 5> sums{};
  for (int i = 0; i < kDraws; ++i) {
    const double uniform = random.uniform();
    const double normal = random.normal();
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    sums[0] += uniform;
    sums[1] += normal;
    sums[2] += normal * normal;
    sums[3] += random.exponential(3);
    const std::uint64_t below = random.below(7);
    ASSERT_LT(below, 7u);
    sums[4] += static_cast<double>(below);
  }
  // Within five standard deviations of the mean.
  EXPECT_NEAR(sums[0] / kDraws, 0.5, 0.005);
  EXPECT_NEAR(sums[1] / kDraws, 0, 0.016);
  EXPECT_NEAR(sums[2] / kDraws, 1, 0.023);
  EXPECT_NEAR(sums[3] / kDraws, 3, 0.048);
  EXPECT_NEAR(sums[4] / kDraws, 3, 0.032);
}

}  // namespace
}  // namespace archipelago
