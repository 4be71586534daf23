#pragma once

namespace archipelago::mpi {

// From now on this process outlives the launcher's daemon on its host, which by default takes all
// its ranks along: PRRTE 3 gives up the whole job when it loses a single host. What is left then is
// what ranks have between them already: communicators, windows, connections. MPI no longer tells of
// deaths, and can neither spawn nor finalize. To be called after MPI has started; false where this
// MPI's PMIx does not offer it.
bool outlive_launcher();

// Whether that daemon is gone. Any thread.
bool launcher_is_gone() noexcept;

// Returns once it is. For a thread that has nothing else to do.
void wait_until_launcher_is_gone() noexcept;

}  // namespace archipelago::mpi
