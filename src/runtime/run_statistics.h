#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "link/message.h"

namespace archipelago::runtime {

// Sums over a run that its summary tells: how fast it was against the same hardware without
// failures, how long learners waited.
class RunStatistics {
 public:
  RunStatistics(std::int64_t batch_tokens, int learners)
      : batch_tokens_(batch_tokens), learners_(learners) {}

  // Training was under way then: nothing of what was before counts.
  void begin(double now) { first_step_ = now; }

  // A report of a learner that has made a step since the one before.
  void add_step(const link::Report& report, double now);

  // So many learners are wanted from now on.
  void set_learners(int learners, double now);

  // A life is over: its sums are kept.
  void end_life(const link::Report& last);

  bool started() const { return first_step_ > 0; }
  double seconds(double now) const { return started() ? now - first_step_ : 0; }

  // Useful tokens a second, as a share of what the learners that were wanted would have trained
  // without a break at their mean seconds a step, at most 1. `tokens`: trained since the first
  // step, each once; `living`: the last reports of those that still live.
  double goodput(std::int64_t tokens, double now, const std::vector<link::Report>& living) const;

  // Waited seconds over all lives, as a share of their time.
  double blocked_fraction(const std::vector<link::Report>& living) const;

  // Joules over all lives; NaN where any learner's are not available.
  double joules(const std::vector<link::Report>& living) const { return with(living).joules; }

  std::int64_t largest_resident_bytes() const { return largest_resident_bytes_; }
  double largest_memory_ratio() const { return largest_memory_ratio_; }

 private:
  struct Sums {
    double blocked_seconds = 0;
    double busy_seconds = 0;
    std::int64_t steps = 0;
    double joules = 0;

    void add(const link::Report& report);
  };

  Sums with(const std::vector<link::Report>& living) const;

  std::int64_t batch_tokens_;
  int learners_;                // wanted
  double learners_since_ = 0;   // when that was so; 0: from the first step on
  double learner_seconds_ = 0;  // that were wanted before
  double first_step_ = 0;
  Sums ended_;  // of lives that are over
  std::int64_t largest_resident_bytes_ = 0;
  double largest_memory_ratio_ = 0;
};

// Mean of the losses, nats a token, that those who have made a step in this life reported last; NaN
// where nobody has. Losses above `limit` and such as are not finite are of learners that have
// diverged, whose work is not merged: they are left out, except where there are no others.
double mean_loss(const std::vector<link::Report>& living, double limit);

// It as a progress line has it, also where it is not known or not finite.
std::string mean_loss_text(const std::vector<link::Report>& living, double limit);

}  // namespace archipelago::runtime
