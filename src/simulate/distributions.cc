#include "simulate/distributions.h"

#include <cmath>

namespace archipelago::simulate {
namespace {

constexpr double kLn2 = 0.6931471805599453;

// Time of the unit-scale distribution at which F = u.
double quantile(double u, double shape, double power) {
  const double inner = power == 1 ? u : portable_power(u, 1 / power);
  const double hazard = -portable_log(1 - inner);
  return shape == 1 ? hazard : portable_power(hazard, 1 / shape);
}

}  // namespace

double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.7071067811865476) {
    mantissa *= 2;
    --exponent;
  }
  const double z = (mantissa - 1) / (mantissa + 1);
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * (z * z) + 1.0 / k;
  return exponent * kLn2 + 2 * z * sum;
}

double portable_exp(double x) {
  const double count = std::floor(x / kLn2 + 0.5);
  const double rest = x - count * kLn2;
  double sum = 1;
  for (int k = 14; k >= 1; --k) sum = 1 + sum * rest / k;
  return std::ldexp(sum, static_cast<int>(count));
}

double portable_power(double x, double y) { return portable_exp(portable_log(x) * y); }

double portable_normal(Random& random) {
  double normal = -6;
  for (int i = 0; i < 12; ++i) normal += random.uniform();
  return normal;
}

Duration::Duration(double mean, double shape, double power)
    : scale_(mean), shape_(shape), power_(power) {
  if (shape == 1 && power == 1) return;
  // The mean at scale 1: the mean of the quantiles, by the midpoint rule.
  constexpr int kPoints = 20000;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) sum += quantile((i + 0.5) / kPoints, shape, power);
  scale_ = mean / (sum / kPoints);
}

double Duration::sample(Random& random) const {
  // In (0, 1): both logarithms are finite.
  const double u = (static_cast<double>(random.next() >> 12) + 0.5) * 0x1.0p-52;
  return scale_ * quantile(u, shape_, power_);
}

}  // namespace archipelago::simulate
