#pragma once

#include <string>
#include <vector>

#include "simulate/outcome.h"
#include "simulate/scenario.h"
#include "simulate/site.h"

namespace archipelago::simulate {

// A real run, read from its event tape.
struct ObservedRun {
  Scenario scenario;        // that simulates it: its settings and delays
  std::vector<Site> sites;  // when each learner stepped, died and was there again
  Outcome outcome;          // what it came to: goodput, rounds, contributors, contributions
};

// Reads RUN/events.jsonl and follows it with a state machine of its own. Throws Error(bad_data)
// naming the file.
ObservedRun observe_run(const std::string& run);

// What the simulator makes of the run.
Outcome predict(const ObservedRun& run);

// Observed and predicted side by side.
std::string comparison_text(const Outcome& observed, const Outcome& predicted);
std::string comparison_json(const ObservedRun& observed, const Outcome& predicted);

}  // namespace archipelago::simulate
