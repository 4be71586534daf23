#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace archipelago::report {

// A learner's step, as metrics.jsonl tells it (docs/design.md, "A run's folder").
struct Step {
  double t;  // seconds of training; the launches of a resumed run one after the other
  int learner;
  int incarnation;
  std::int64_t tokens;      // of the learner
  std::int64_t run_tokens;  // of all learners by then
  double loss;
  double seconds;
  double blocked_seconds;
  std::optional<double> joules;  // since the learner's step before
  std::optional<double> accuracy;
};

// A merge of one fragment.
struct Round {
  double t;
  int contributors;
  double wait_seconds;
  double merge_seconds;
};

// A learner that died, with what is known of why.
struct Loss {
  double t;
  int learner;
  std::string reason;
};

// What a run's folder tells of it.
struct History {
  std::filesystem::path folder;
  int learners = 0;  // the highest number and one
  int launches = 1;
  double seconds = 0;
  std::vector<Step> steps;  // in the order of time
  std::vector<Round> rounds;
  std::vector<Loss> losses;
  nlohmann::json summary;  // null while the run goes on, or where it was cut off
  nlohmann::json status;   // null where there is none
};

// Reads metrics.jsonl, events.jsonl, summary.json and status.json of a run that may still go on: a
// line that is cut off or foreign is passed over. Throws Error(configuration) where the folder
// holds no run that has trained.
History read_history(const std::filesystem::path& folder);

}  // namespace archipelago::report
