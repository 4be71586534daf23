#pragma once

#include <cstdint>
#include <vector>

#include "link/message.h"

namespace archipelago::runtime {

// Sums over a run that its summary tells: how fast it was against the same hardware without
// failures, how long learners waited.
class RunStatistics {
 public:
  explicit RunStatistics(std::int64_t batch_tokens) : batch_tokens_(batch_tokens) {}

  // A report of a learner that has made a step since the one before.
  void add_step(const link::Report& report, double now);

  // A life is over: its sums are kept.
  void end_life(const link::Report& last);

  bool started() const { return first_step_ > 0; }
  double first_step() const { return first_step_; }
  double seconds(double now) const { return started() ? now - first_step_ : 0; }

  // Useful tokens a second, as a share of what `learners` learners would have trained without a
  // break at their mean step time. `tokens`: trained since the first step, each once.
  double goodput(std::int64_t tokens, double now, int learners) const;

  // Waited seconds over all lives, as a share of their time; `living`: the last reports of those
  // that still live.
  double blocked_fraction(const std::vector<link::Report>& living) const;

  std::int64_t largest_resident_bytes() const { return largest_resident_bytes_; }

 private:
  std::int64_t batch_tokens_;
  double first_step_ = 0;
  double step_seconds_ = 0;  // summed over all steps of all learners
  std::int64_t steps_ = 0;
  double blocked_seconds_ = 0;  // of lives that are over
  double busy_seconds_ = 0;
  std::int64_t largest_resident_bytes_ = 0;
};

}  // namespace archipelago::runtime
