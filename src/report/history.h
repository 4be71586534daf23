#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/settings.h"
#include "report/tape.h"

namespace archipelago::report {

// A learner's step, as metrics.jsonl tells it (docs/design.md, "A run's folder").
struct Step {
  double t;  // seconds of training; the launches of a resumed run one after the other
  int learner;
  int incarnation;
  std::int64_t run_tokens;  // of all learners by then
  std::int64_t gained;      // by the learner since its row before; 0 where its life began later
  double loss;              // not a number where it was not finite
  std::optional<double> learning_rate;  // older runs do not tell it
  std::optional<double> gradient_norm;  // before clipping; likewise
  double seconds;                       // that the step took, without waits
  std::optional<double> since;          // seconds since the learner's row before, of the same life
  double blocked_seconds;               // that the learner waited since then
  std::optional<double> joules;
  std::optional<double> accuracy;
};

// A merge of one fragment.
struct Round {
  double t;
  int contributors;
  double wait_seconds;
};

// How a global checkpoint does on the validation split.
struct Validation {
  double t;
  std::int64_t run_tokens;
  double loss;
};

// What concerns all learners: another launch, or the standby syncer's taking over.
struct Event {
  double t;
  std::string what;
};

// What a run's folder tells of it.
struct History {
  std::filesystem::path folder;
  int learners = 0;  // the highest number and one
  int launches = 1;  // that trained
  double seconds = 0;
  std::vector<Step> steps;  // in the order of time
  std::vector<Round> rounds;
  std::vector<Validation> validations;
  std::vector<Departure> departures;  // in seconds of the whole run
  std::vector<Event> events;
  int rejoins = 0;
  Settings settings;
  nlohmann::json summary;  // null while the run goes on, or where it was cut off
  nlohmann::json status;   // null where there is none
};

// Reads config.ini, metrics.jsonl, events.jsonl, summary.json and status.json of a run that may
// still go on: a line that is cut off or foreign is passed over. Throws Error(configuration) where
// the folder holds no run that has trained, std::system_error where a file cannot be read.
History read_history(const std::filesystem::path& folder);

}  // namespace archipelago::report
