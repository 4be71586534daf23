#pragma once

#include "core/random.h"

namespace archipelago::simulate {

// Natural logarithm (x > 0) and exponential from additions, multiplications and divisions alone, so
// that a seed gives the same events with every C library and processor. Relative error below 1e-14.
double portable_log(double x);
double portable_exp(double x);

// x^y for x > 0.
double portable_power(double x, double y);

// Nearly standard normal, within [-6, 6]: the sum of twelve uniform numbers.
double portable_normal(Random& random);

// How long something lasts: exponentiated Weibull, F(t) = (1 - exp(-(t / scale)^shape))^power
// (Mudholkar and Srivastava 1993). shape = power = 1: exponential; power = 1: Weibull.
class Duration {
 public:
  // The scale follows from the mean (seconds).
  Duration(double mean, double shape, double power);

  double sample(Random& random) const;
  double scale() const { return scale_; }

 private:
  double scale_;
  double shape_;
  double power_;
};

}  // namespace archipelago::simulate
