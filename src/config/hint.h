#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"

namespace archipelago::config {

// One line where each fragment is merged too seldom in the whole run for its outer momentum, with
// one that has trained better then (docs/quality.md); nothing for methods without an outer step.
std::optional<std::string> outer_momentum_hint(const RunConfig& config);

}  // namespace archipelago::config
