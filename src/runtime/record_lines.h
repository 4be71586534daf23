#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "evaluate/score.h"
#include "link/message.h"
#include "runtime/arrivals.h"
#include "runtime/chaos.h"
#include "runtime/rejoins.h"
#include "runtime/run_record.h"
#include "runtime/validator.h"
#include "sync/machine.h"

namespace archipelago::runtime {

// Lines of metrics.jsonl and events.jsonl (docs/design.md, "A run's folder") that several kinds of
// run write, at `t`: seconds in metrics.jsonl, nanoseconds in events.jsonl.

// A learner's step; what it has waited and used (joules, NaN: not available) since its row before.
nlohmann::json step_row(double t, const link::Report& report, double blocked_seconds,
                        double joules);

// Adds `<name>_loss`, and for images `<name>_accuracy`; nothing where there was nothing to validate
// on.
void add_score(nlohmann::json& object, const std::string& name, const evaluate::Score& score);

nlohmann::json validation_row(double t, const Validator::Result& result);

// A planned fault that strikes the learner `view` shows.
nlohmann::json fault_line(sync::Nanoseconds t, const Fault& fault, const sync::LearnerView& view);

// That a learner counts again.
nlohmann::json rejoin_line(sync::Nanoseconds t, const Rejoins::Rejoin& rejoin);

// That a global checkpoint is taken after so many rounds, and the digest of its Theta.
nlohmann::json snapshot_line(sync::Nanoseconds t, std::int64_t round, std::uint64_t theta);

// Where the options ask for it, what learners give to merges is kept from here on; replay finds it
// by the life.
void begin_contributions(RunRecord& record, sync::Nanoseconds t, int life,
                         const config::Sync& settings);

// Of status.json's list of learners, without host and processes.
nlohmann::json learner_entry(int id, const sync::LearnerView& view);
nlohmann::json spare_entry();

// What these actions merge; to be told before the entry that they belong to.
void keep_contributions(RunRecord& record, const std::vector<sync::Action>& actions,
                        const Arrivals& arrivals);

}  // namespace archipelago::runtime
