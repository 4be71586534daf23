#pragma once

#include <cstdint>
#include <string>

#include "data/dataset.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// Bytes of the checkpoints' arrays; the files are a little larger.
struct CheckpointBytes {
  std::int64_t global = 0;
  std::int64_t learners = 0;  // one of every learner together; none where the method writes none
};
CheckpointBytes checkpoint_bytes(const Setup& setup);

// What a run would need, in lines of text: parameters, memory of a learner's rank and of the
// syncer, room for checkpoints and what is free where they go, bytes to exchange a step and a
// round, and the bandwidth that takes. `dataset`: the run's, where it is at hand. Multiplies
// matrices for a moment to learn how fast this machine is.
std::string describe_run(const Setup& setup, const data::Dataset* dataset);

}  // namespace archipelago::runtime
