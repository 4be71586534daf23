#pragma once

#include <functional>

#include "simulate/outcome.h"
#include "simulate/scenario.h"
#include "sync/messages.h"

namespace archipelago::simulate {

// Whether learners report at every inner step, as in a run, or only where the state machine decides
// anything by it: often enough not to be suspected, before and after each stall. Both give the same
// decisions.
enum class Reports { every_step, needed };

using ActionObserver =
    std::function<void(sync::Nanoseconds, const sync::Event&, const std::vector<sync::Action>&)>;

// Runs the state machine of src/sync over the scenario's learners in virtual time. `observer`,
// where there is one, sees every event and what was decided.
Outcome simulate_decoupled(const Scenario& scenario, std::uint64_t seed,
                           Reports reports = Reports::needed, const ActionObserver& observer = {});

}  // namespace archipelago::simulate
