#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cli/live_run.h"

namespace archipelago::cli {

// A learner's newest row of metrics.jsonl.
struct LastStep {
  double loss = 0;
  double seconds = 0;
};

// The newest row of each learner in the last lines of metrics.jsonl; `tail` may begin and end
// within a line.
std::map<int, LastStep> last_steps(std::string_view tail);

// What `archipelago watch` shows: a headline, a line for each learner, spares and syncers.
// `tokens_per_second` of all learners: 0 where it is not known yet.
std::string view_of(const LiveRun& run, const LiveRun::Reading& reading,
                    const std::map<int, LastStep>& steps, double tokens_per_second);

}  // namespace archipelago::cli
