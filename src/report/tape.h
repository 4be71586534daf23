#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace archipelago::report {

enum class Cause { died, expelled, retired };

// A learner that its island no longer plays, with what is known of why.
struct Departure {
  double t;  // seconds of its launch
  int learner;
  Cause cause;
  std::string reason;  // nothing for one that retired
};

// The first report of a launch in which a learner has made a step.
struct FirstReport {
  double t;  // seconds of its launch
  int learner;
  double step_seconds;
};

// One start of the run, as the event tape tells it.
struct Launch {
  std::vector<Departure> departures;        // until it was decided how the launch ends
  std::vector<double> takeovers;            // when the standby syncer went on
  std::vector<double> launcher_losses;      // when a host was lost, and mpirun with it
  int rejoins = 0;                          // learners that count again after a loss
  std::optional<FirstReport> first_report;  // nothing where it has not trained
  double seconds = 0;                       // from its start to the last that the tape tells
  std::string ending = "";  // "stopped: the file stop"; nothing where the tape breaks off
};

// The launches on a run's events.jsonl, which may still grow: what is cut off or foreign is passed
// over. None where there is no tape.
std::vector<Launch> read_tape(const std::filesystem::path& file);

}  // namespace archipelago::report
