#pragma once

#include <cstdint>

#include "config/run_config.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// Bytes of a learner's rank by what they are for.
struct LearnerMemory {
  std::int64_t parameters;
  std::int64_t gradients;
  std::int64_t moments;
  std::int64_t activations;
  std::int64_t exchange;   // bases and residuals of what goes up
  std::int64_t fragments;  // two of the largest: one on its way up, one down
  std::int64_t data;
  // Without the data, which were there before the model.
  std::int64_t total() const {
    return parameters + gradients + moments + activations + exchange + fragments;
  }
};

// `own`: the configuration as the learner has it.
LearnerMemory learner_memory(const Setup& setup, const config::RunConfig& own,
                             std::int64_t data_bytes);

}  // namespace archipelago::runtime
