#pragma once

#include <optional>
#include <string>

namespace archipelago::runtime {

// What a stop signal does that comes again.
enum class SecondSignal { asks_again, kills };

// From now on SIGTERM, SIGINT and SIGUSR1 only set a flag in this process; the syncer acts on it at
// its next poll, other ranks leave it to the syncer.
void catch_stop_signals(SecondSignal second = SecondSignal::asks_again);

// The signal that came, 0 for none.
int stop_signal();

// Who wants the run to end early, as its reason says it; nothing where no signal has come.
std::optional<std::string> signal_request();

}  // namespace archipelago::runtime
