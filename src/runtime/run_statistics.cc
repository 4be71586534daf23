#include "runtime/run_statistics.h"

#include <algorithm>

namespace archipelago::runtime {

void RunStatistics::add_step(const link::Report& report, double now) {
  if (!started()) first_step_ = now - report.step_seconds;
  step_seconds_[report.learner].push_back(static_cast<float>(report.step_seconds));
  largest_resident_bytes_ = std::max(largest_resident_bytes_, report.resident_bytes);
}

void RunStatistics::end_life(const link::Report& last) {
  blocked_seconds_ += last.blocked_seconds;
  busy_seconds_ += last.busy_seconds;
}

double RunStatistics::goodput(std::int64_t tokens, double now, int learners) const {
  double rate = 0;  // tokens a second of all learners that ever stepped
  for (const auto& [learner, seconds] : step_seconds_) {
    auto sorted = seconds;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    if (*middle > 0) rate += static_cast<double>(batch_tokens_) / static_cast<double>(*middle);
  }
  if (rate == 0 || seconds(now) <= 0) return 0;
  const double of_all = rate / static_cast<double>(step_seconds_.size()) * learners;
  return static_cast<double>(tokens) / seconds(now) / of_all;
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
