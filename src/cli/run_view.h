#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cli/live_run.h"

namespace archipelago::cli {

// The end of metrics.jsonl.
struct NewestRows {
  struct Learner {
    double loss = 0;               // of its newest row; not a number where it was not finite
    double step_seconds = 0;       // likewise
    double tokens_per_second = 0;  // of its newest life; 0: not known yet
    // Of its newest row; older runs do not tell them.
    std::optional<double> learning_rate = std::nullopt;
    std::optional<double> gradient_norm = std::nullopt;
  };
  std::map<int, Learner> learners;
  double seconds = 0;  // of training by then, in this launch
};

// `tail` may begin and end within a line.
NewestRows newest_rows(std::string_view tail);

// Of a terminal, in characters.
struct Size {
  std::size_t lines;
  std::size_t columns;
};

// What `archipelago watch` shows: a headline, a line for each learner, spares and syncers, or who
// records a run of a method without a syncer. It is cut to the terminal's size where there is one:
// the headline stays, learners that find no room are counted, and where the lines are too short for
// them, learning rates and gradient norms are left out.
std::string view_of(const LiveRun& run, const LiveRun::Reading& reading, const NewestRows& rows,
                    bool has_syncer, std::optional<Size> size);

}  // namespace archipelago::cli
