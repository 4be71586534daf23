#pragma once

#include <string>
#include <vector>

namespace archipelago::chart {

// With three digits; "-" for what is no number.
std::string short_number(double value);

// With three digits, thousands as k, millions as M, then G, T, P and E.
std::string tick_label(double value);

// An axis from `low` to `high`; logarithmic ones begin above 0.
struct Axis {
  double low;
  double high;
  bool logarithmic = false;

  // Where a value lies, from 0 (low) to 1 (high); 1/2 where the two are one.
  double share(double value) const;

  // Round values within the axis, about `count` of them: multiples of 1, 2 or 5 times a power of
  // ten; on a logarithmic axis 1, 2 and 5 times powers of ten, or powers of ten alone where these
  // are enough.
  std::vector<double> ticks(int count) const;
};

}  // namespace archipelago::chart
