#pragma once

#include "config/run_config.h"

namespace archipelago::runtime {

// Plays this rank's part in a training run: rank 0 the syncer, then the standby syncers, then the
// islands. Returns the exit code for a failure that all ranks agreed on at the start; else it does
// not return but ends the process, since MPI may not be left the usual way after a death.
int train(const config::RunConfig& config);

}  // namespace archipelago::runtime
