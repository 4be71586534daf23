#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace archipelago::replay {

// What following a run's tape once more has shown.
struct Replayed {
  std::int64_t entries = 0;     // events that were told again
  std::int64_t decisions = 0;   // actions, all as on the tape
  std::int64_t starts = 0;      // the run's start, and each time it was taken up again
  std::int64_t takeovers = 0;   // by a standby
  std::int64_t superseded = 0;  // entries that a standby took over without
  std::int64_t merges = 0;      // done again from kept contributions
  std::int64_t contributions = 0;
  std::int64_t snapshots = 0;      // digests of Theta on the tape
  std::int64_t recomputed = 0;     // of them, equal to that of Theta made again
  std::int64_t checkpoints = 0;    // checkpoint files with the Theta of their snapshot
  std::string theta_unknown;       // why not all of Theta was made again; empty: all of it was
  std::vector<std::int64_t> cuts;  // lines that a crash cut off
  std::string end;                 // how the run ended; empty: the tape ends before
  std::string difference;          // the first one found, with its line; empty: none
};

// Tells a state machine the events on RUN/events.jsonl again and compares what it decides with what
// stands there; where the run kept its fragments, makes Theta again by the shipped merge and
// compares its digest at each snapshot. Stops at the first difference. Throws Error(bad_data) where
// the folder holds no tape, Error(configuration) where its config.ini cannot be used.
Replayed replay(const std::filesystem::path& run);

std::string replayed_text(const Replayed& replayed);
std::string replayed_json(const Replayed& replayed);

}  // namespace archipelago::replay
