#pragma once

#include <string>

#include "data/dataset.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// What a run would need, in lines of text: parameters, memory of a learner's rank and of the
// syncer, room for checkpoints and what is free where they go, bytes to exchange a step and a
// round, and the bandwidth that takes. `dataset`: the run's, where it is at hand. Multiplies
// matrices for a moment to learn how fast this machine is.
std::string describe_run(const Setup& setup, const data::Dataset* dataset);

}  // namespace archipelago::runtime
