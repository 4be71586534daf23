#pragma once

#include <cstdint>
#include <vector>

#include "baseline/averager.h"
#include "baseline/method.h"
#include "baseline/records.h"
#include "baseline/roll.h"
#include "baseline/step_notes.h"
#include "data/dataset.h"
#include "runtime/layout.h"
#include "runtime/learner_state.h"
#include "runtime/run_folder.h"
#include "runtime/setup.h"

namespace archipelago::baseline {

// One rank of a learner from the first inner step to the last. The learners step together: each
// makes train.steps inner steps, and they agree on an early end where they meet.
class Learner {
 public:
  // Makes the model and gives it the initial parameters. References must outlive this.
  Learner(const runtime::Setup& setup, const data::Dataset& dataset,
          const runtime::RunFolder& folder, const runtime::Layout& layout, int rank);

  runtime::LearnerState& state() { return state_; }

  // `averager`: the method's, where this rank has one; `records`: on the rank that keeps them.
  void train(Method& method, const Averager* averager, Roll& roll, Records* records);

  // Whether all steps were made.
  bool complete() const { return state_.steps() == setup_.config.train.steps; }
  // Whether it ended early because no learner's loss was finite any more.
  bool diverged() const { return diverged_meetings_ == kDivergedMeetings; }

 private:
  static constexpr int kDivergedMeetings = 10;

  RollEntry entry(const Method& method, const Averager* averager);
  bool asked_to_stop();
  bool shall_stop(const std::vector<RollEntry>& entries);

  const runtime::Setup& setup_;
  const runtime::RunFolder& folder_;
  bool watches_folder_;
  StepNotes notes_;
  runtime::LearnerState state_;
  double started_ = 0;
  double next_look_ = 0;
  bool stop_seen_ = false;
  int diverged_meetings_ = 0;  // in a row
};

}  // namespace archipelago::baseline
