#pragma once

namespace archipelago::runtime {

// Recent seconds of an inner step: a running mean, `before` 0 where there is none yet.
inline double recent_step_seconds(double before, double newest) {
  constexpr double kNewestShare = 0.2;
  return before == 0 ? newest : before + kNewestShare * (newest - before);
}

}  // namespace archipelago::runtime
