#include "runtime/run_statistics.h"

#include <algorithm>

namespace archipelago::runtime {

void RunStatistics::add_step(const link::Report& report, double now) {
  if (!started()) first_step_ = now - report.step_seconds;
  step_seconds_ += report.step_seconds;
  ++steps_;
  largest_resident_bytes_ = std::max(largest_resident_bytes_, report.resident_bytes);
}

void RunStatistics::end_life(const link::Report& last) {
  blocked_seconds_ += last.blocked_seconds;
  busy_seconds_ += last.busy_seconds;
}

double RunStatistics::goodput(std::int64_t tokens, double now, int learners) const {
  if (steps_ == 0 || seconds(now) <= 0) return 0;
  const double useful_steps = static_cast<double>(tokens) / static_cast<double>(batch_tokens_);
  const double step_seconds = step_seconds_ / static_cast<double>(steps_);
  return useful_steps * step_seconds / (seconds(now) * learners);
}

double RunStatistics::blocked_fraction(const std::vector<link::Report>& living) const {
  double blocked = blocked_seconds_;
  double busy = busy_seconds_;
  for (const auto& report : living) {
    blocked += report.blocked_seconds;
    busy += report.busy_seconds;
  }
  return busy > 0 ? blocked / busy : 0;
}

}  // namespace archipelago::runtime
