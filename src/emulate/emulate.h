#pragma once

#include "config/run_config.h"
#include "emulate/conditions.h"

namespace archipelago::emulate {

// Trains as `train` does, in this process and in virtual time: M learners with models, data and
// optimizers of their own, a syncer that decides and merges by the code of a real run, faults of
// the chaos plan. The same options give the same result in every run on one kind of processor.
// Writes the run's folder (docs/emulation.md) and prints the outcome. Ends early as a
// real run does: by the file `stop`, by SIGTERM, SIGINT or SIGUSR1 (which end it at once when they
// come again), and where no learner is left. Throws Error. The exit code.
int emulate(const config::RunConfig& config, const Conditions& conditions);

}  // namespace archipelago::emulate
