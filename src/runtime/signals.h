#pragma once

namespace archipelago::runtime {

// From now on SIGTERM, SIGINT and SIGUSR1 only set a flag in this process; the syncer acts on it at
// its next poll, other ranks leave it to the syncer.
void catch_stop_signals();

// The signal that came, 0 for none.
int stop_signal();

}  // namespace archipelago::runtime
