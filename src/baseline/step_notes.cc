#include "baseline/step_notes.h"

#include "runtime/global_state.h"
#include "runtime/memory_table.h"
#include "runtime/step_seconds.h"

namespace archipelago::baseline {

StepNotes::StepNotes() : memory_before_(runtime::resident_bytes()) {}

void StepNotes::note(double seconds) {
  step_seconds_ = runtime::recent_step_seconds(step_seconds_, seconds);
}

void StepNotes::fill(RollEntry& entry, const runtime::LearnerState& state) const {
  entry.steps = state.steps();
  entry.tokens = state.tokens();
  entry.loss = state.last_step().loss;
  entry.accuracy = state.last_step().accuracy.value_or(-1);
  entry.learning_rate = state.last_step().learning_rate;
  entry.gradient_norm = state.last_step().gradient_norm;
  entry.step_seconds = step_seconds_;
  entry.resident_bytes = runtime::resident_bytes();
  entry.memory_ratio = runtime::memory_ratio(state.memory(), memory_before_, entry.resident_bytes);
}

void begin_at_the_start(const runtime::Setup& setup, runtime::LearnerState& state) {
  state.begin(0, 0, nullptr);
  state.take_fixed_share();
  const runtime::GlobalState initial(setup);
  for (int fragment = 0; fragment < setup.fragment_count(); ++fragment) {
    state.receive(fragment, 0, *initial.theta(fragment));
  }
}

}  // namespace archipelago::baseline
