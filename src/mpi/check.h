#pragma once

#include <mpi.h>

#include <string>

namespace archipelago::mpi {

// What a peer's death can do to a call. Anything else that goes wrong is thrown.
enum class [[nodiscard]] Outcome{ok, peer_failed};

// The outcome of a call that a peer's death can interrupt: success, or an error of the classes
// MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING or MPIX_ERR_REVOKED. Throws Error(internal)
// with `doing` and MPI's text for any other code.
Outcome outcome_of(int code, const std::string& doing);

// For calls that touch no peer, or whose peers' death ends this process's work: throws
// Error(internal) "`doing`: MPI's text" unless `code` is MPI_SUCCESS.
void check(int code, const std::string& doing);

}  // namespace archipelago::mpi
