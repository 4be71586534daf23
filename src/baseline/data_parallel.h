#pragma once

#include "baseline/averager.h"
#include "baseline/method.h"
#include "runtime/learner_state.h"
#include "runtime/setup.h"

namespace archipelago::baseline {

// Synchronous data-parallel training: every step's gradients are averaged over all ranks of all
// learners, a bucket at a time while the backward pass goes on (Li et al. 2020, PyTorch
// Distributed), so all hold the same parameters and make the same step.
class DataParallel : public Method {
 public:
  // The state has begun a life and holds the parameters to start from; `averager` is over all
  // ranks. References must outlive this.
  DataParallel(const runtime::Setup& setup, runtime::LearnerState& state, Averager& averager);

  bool meets(std::int64_t) const override { return true; }
  void step(std::int64_t step) override;
  void finish() override {}
  checkpoint::Global result() const override;
  double blocked_seconds() const override { return blocked_seconds_; }
  std::int64_t rounds() const override { return 0; }
  std::vector<RoundRow> take_rounds() override { return {}; }

 private:
  void start_ready(std::int64_t from);

  const runtime::Setup& setup_;
  runtime::LearnerState& state_;
  Averager& averager_;
  std::int64_t unsent_end_ = 0;  // the gradients before it are not on their way yet
  std::int64_t last_mean_ = 0;
  double blocked_seconds_ = 0;
};

}  // namespace archipelago::baseline
