#pragma once

#include "core/error.h"
#include "mpi/check.h"

namespace archipelago::baseline {

// Methods without a syncer end with the first rank that dies: throws Error(internal) then.
inline void require(mpi::Outcome outcome) {
  if (outcome != mpi::Outcome::ok) {
    throw Error(ExitCode::internal, "a rank died, and this method can't go on without it");
  }
}

}  // namespace archipelago::baseline
