#pragma once

#include "simulate/outcome.h"
#include "simulate/scenario.h"

namespace archipelago::simulate {

// One run of one method with one seed.
Outcome simulate(const Scenario& scenario, Method method, std::uint64_t seed);

}  // namespace archipelago::simulate
