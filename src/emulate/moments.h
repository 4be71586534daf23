#pragma once

#include <map>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "runtime/learner_state.h"

namespace archipelago::emulate {

// What of the learners' checkpoints a later life takes: their optimizers' moments.
class Moments {
 public:
  void save(runtime::LearnerState& state);

  // The learner's own, else those of the learner that was furthest.
  std::optional<checkpoint::Learner> newest(int learner) const;

 private:
  std::map<int, checkpoint::Learner> saved_;
};

}  // namespace archipelago::emulate
