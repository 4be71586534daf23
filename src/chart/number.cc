#include "chart/number.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

namespace archipelago::chart {
namespace {

constexpr double kLeastThousand = 999.5;  // that three digits show as 1000
constexpr double kRound = 1e-9;           // share of a step by which a sum of steps may be off
constexpr double kNarrowest = 1e-12;      // that an axis is of its numbers, to be divided

std::vector<double> linear_ticks(const Axis& axis, int count) {
  const double rough = (axis.high - axis.low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - kRound)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(axis.low / step - kRound);
  for (double i = first; i * step <= axis.high + kRound * step; ++i)
    ticks.push_back(i * step + 0.0);
  return ticks;
}

std::vector<double> logarithmic_ticks(const Axis& axis, int count) {
  const bool powers = std::log10(axis.high / axis.low) >= count / 3.0;
  std::vector<double> ticks;
  for (double power = std::floor(std::log10(axis.low)); std::pow(10, power) <= axis.high; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      if (powers && factor > 1) continue;
      if (value >= axis.low * (1 - kRound) && value <= axis.high * (1 + kRound)) {
        ticks.push_back(value);
      }
    }
  }
  return ticks;
}

}  // namespace

std::string short_number(double value) {
  if (std::isnan(value)) return "-";
  std::ostringstream out;
  out << std::setprecision(3) << value;
  return out.str();
}

std::string tick_label(double value) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e18, "E"}, {1e15, "P"}, {1e12, "T"},
                                                       {1e9, "G"},  {1e6, "M"},  {1e3, "k"}};
  if (std::abs(value) >= kLeastThousand * kUnits[0].first) return short_number(value);
  for (const auto& [unit, letter] : kUnits) {
    if (std::abs(value) < kLeastThousand * unit / 1e3) continue;
    std::string label = short_number(value / unit);
    label += letter;
    return label;
  }
  return short_number(value);
}

double Axis::share(double value) const {
  if (high == low) return 0.5;
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

std::vector<double> Axis::ticks(int count) const {
  if (!(high - low > kNarrowest * std::max(std::abs(low), std::abs(high)))) return {low};
  return logarithmic ? logarithmic_ticks(*this, count) : linear_ticks(*this, count);
}

}  // namespace archipelago::chart
