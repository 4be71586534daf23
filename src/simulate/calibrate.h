#pragma once

#include <string>
#include <vector>

#include "simulate/outcome.h"
#include "simulate/scenario.h"

namespace archipelago::simulate {

// A real run, read from its event tape.
struct ObservedRun {
  Scenario scenario;  // that simulates it: its settings, step times, delays, failures
  Outcome outcome;    // what it came to: goodput, rounds, contributors, contributions
};

// Reads RUN/events.jsonl and follows it with a state machine of its own. Failures are written to
// `trace` as a failure trace file, which the scenario names. Throws Error(bad_data) naming the
// file.
ObservedRun observe_run(const std::string& run, const std::string& trace);

// Observed and predicted side by side.
std::string comparison_text(const Outcome& observed, const Outcome& predicted);
std::string comparison_json(const ObservedRun& observed, const Outcome& predicted);

}  // namespace archipelago::simulate
