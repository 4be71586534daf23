#pragma once

#include <string>

#include "simulate/recorded.h"

namespace archipelago::simulate {

// A real run, read from its event tape.
struct ObservedRun {
  Recorded recorded;
  RunOutcome outcome;
  double tokens_per_second = 0;  // of its learners without failures
};

// Reads RUN/events.jsonl and follows it with a state machine of its own; of a run that was taken up
// again, the last part. Throws Error(bad_data) naming the file.
ObservedRun observe_run(const std::string& run);

// Useful tokens as a share of what the learners train without failures in the outcome's time.
double goodput_of(const ObservedRun& run, const RunOutcome& outcome);

// Observed and predicted side by side.
std::string comparison_text(const ObservedRun& run, const RunOutcome& predicted);
std::string comparison_json(const ObservedRun& run, const RunOutcome& predicted);

}  // namespace archipelago::simulate
