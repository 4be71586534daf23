#pragma once

#include <functional>

#include "config/run_config.h"
#include "mpi/session.h"

namespace archipelago::runtime {

// A rank's part in a job: returns the exit code of a failure that all ranks agreed on at the start,
// or ends the process.
using Play = std::function<int(mpi::Session&, const config::RunConfig&)>;

// Starts MPI and plays this rank's part; what goes wrong in it ends the process so that the others
// see it at once.
[[noreturn]] void play_rank(const config::RunConfig& config, const Play& play);

// Plays this rank's part in a decoupled training run: rank 0 the syncer, then the standby syncers,
// then the islands. Ends the process, since MPI may not be left the usual way after a death.
[[noreturn]] void train(const config::RunConfig& config);

// Plays this rank's part in a guest, an island that is a job of its own, of the run in config.out.
[[noreturn]] void train_as_guest(const config::RunConfig& config);

}  // namespace archipelago::runtime
