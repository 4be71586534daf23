#pragma once

#include <cstdint>

#include "baseline/roll.h"
#include "runtime/learner_state.h"

namespace archipelago::baseline {

// What a rank tells of its newest inner steps, and of its memory.
class StepNotes {
 public:
  // To be made before the model, whose memory is told.
  StepNotes();

  // A step has been made, in so many seconds without waiting for other ranks.
  void note(double seconds);

  // The entry's counts, what the last step told, seconds a step and memory.
  void fill(RollEntry& entry, const runtime::LearnerState& state) const;

 private:
  std::int64_t memory_before_;  // resident bytes
  double step_seconds_ = 0;
};

// Starts the first life of a learner: it holds the initial parameters and its own part of the data.
void begin_at_the_start(const runtime::Setup& setup, runtime::LearnerState& state);

}  // namespace archipelago::baseline
