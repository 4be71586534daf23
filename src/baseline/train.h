#pragma once

#include "config/run_config.h"

namespace archipelago::baseline {

// Plays this rank's part in a training run by one of the methods that the decoupled one is compared
// with (config.method): the same models, data, inner optimizer and records, other rules of
// exchange. There is no syncer and there are no spares: every rank is a learner's, and one death
// ends the run. Ends the process.
[[noreturn]] void train(const config::RunConfig& config);

// The options as the method takes them: DiLoCo has one fragment and waits for it at once, means are
// plain.
config::RunConfig resolved(config::RunConfig config);

}  // namespace archipelago::baseline
