#pragma once

#include <cstdint>
#include <span>

#include "baseline/records.h"
#include "checkpoint/checkpoint.h"
#include "runtime/job.h"

namespace archipelago::baseline {

// How training ended, before the trained model is looked at.
struct Trained {
  bool complete = false;  // else stopped early
  bool diverged = false;
  std::int64_t rounds = 0;
};

// A checkpoint of a model that was trained without merges.
checkpoint::Global state_of(const runtime::Setup& setup, std::span<const float> parameters);

// Validates the trained model, writes its checkpoint and the run's last records; the exit code.
int conclude(const runtime::Job& job, checkpoint::Global state, const Trained& trained,
             Records& records);

}  // namespace archipelago::baseline
