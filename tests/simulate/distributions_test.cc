#include "simulate/distributions.h"

#include <gtest/gtest.h>

#include <cmath>

namespace archipelago::simulate {
namespace {

TEST(PortableMath, AgreesWithTheLibrary) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(portable_log(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
  }
  for (double x = -700; x < 700; x += 0.173) {
    EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 1e-13) << x;
  }
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_exp(0), 1);
}

double sample_mean(const Duration& duration, double power_of_value) {
  Random random(5);
  double sum = 0;
  constexpr int kSamples = 200'000;
  for (int i = 0; i < kSamples; ++i) sum += std::pow(duration.sample(random), power_of_value);
  return sum / kSamples;
}

TEST(Durations, HaveTheMeanThatWasAskedFor) {
  EXPECT_NEAR(sample_mean(Duration(600, 1, 1), 1) / 600, 1, 0.01);
  EXPECT_NEAR(sample_mean(Duration(600, 0.7, 1), 1) / 600, 1, 0.02);
  EXPECT_NEAR(sample_mean(Duration(600, 2, 3), 1) / 600, 1, 0.01);
}

TEST(Durations, HaveTheWeibullsSecondMoment) {
  // E[t^2] = scale^2 Gamma(1 + 2/k), E[t] = scale Gamma(1 + 1/k).
  const double k = 1.5;
  const double expected = std::tgamma(1 + 2 / k) / std::pow(std::tgamma(1 + 1 / k), 2);
  EXPECT_NEAR(sample_mean(Duration(10, k, 1), 2) / 100, expected, 0.02);
}

}  // namespace
}  // namespace archipelago::simulate
