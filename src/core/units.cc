#include "core/units.h"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>

namespace archipelago {

std::string fixed_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string loss_text(double nats) {
  constexpr double kLarge = 1e3;
  if (!std::isfinite(nats)) return "not finite";
  if (std::abs(nats) < kLarge) return fixed_text(nats, 4);
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", nats);
  return text;
}

std::string bytes_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return fixed_text(bytes, unit == 0 ? 0 : 1) + ' ' + units[unit];
}

std::string seconds_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 60 * kMinute;
  constexpr double kDay = 24 * kHour;
  if (seconds < 10) return fixed_text(seconds, 2) + " s";
  if (seconds < 2 * kMinute) return fixed_text(seconds, 0) + " s";
  if (seconds < 2 * kHour) return fixed_text(seconds / kMinute, 0) + " min";
  if (seconds < 2 * kDay) return fixed_text(seconds / kHour, 1) + " h";
  return fixed_text(seconds / kDay, 1) + " days";
}

}  // namespace archipelago
