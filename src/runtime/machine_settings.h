#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "runtime/setup.h"
#include "sync/machine.h"

namespace archipelago::runtime {

// The state machine's settings for a run.
sync::Settings machine_settings(const Setup& setup);

// What a checkpoint says of rounds and lives.
sync::Restored restored_from(const std::optional<checkpoint::Global>& state);

// And back: the checkpoint of so many rounds, but for what the fragments say (GlobalState).
checkpoint::Global checkpoint_of(const sync::Machine& machine, const Setup& setup,
                                 std::int64_t round);

// Every option for a checkpoint's attributes.
std::map<std::string, std::string> config_map(const Setup& setup);

// The word of status.json.
std::string learner_state_name(sync::LearnerState state);

}  // namespace archipelago::runtime
