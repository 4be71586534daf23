#pragma once

#include <string>
#include <vector>

#include "cli/launch_plan.h"
#include "config/run_config.h"

namespace archipelago::cli {

// The hosts of the Slurm allocation that this process runs in, if it has more than one; else none.
// Throws Error(configuration) when Slurm does not say.
std::vector<std::string> allocated_hosts();

// The plan that run_with_restarts() would follow first.
LaunchPlan plan_of(const config::RunConfig& config, const std::vector<std::string>& hosts);

struct LaunchRules {
  int restarts = 3;            // of a run that failed as a whole, in a row without a new checkpoint
  double start_seconds = 120;  // without a sign of life of a rank, after which a start is given up
  int stop_code = 75;          // returned where the run was stopped by a user's file `stop`
};

// Runs the job and returns the exit code that the run's summary.json holds; where the run left
// none, mpirun's own if it is one of ours, else 75 if there is a checkpoint to go on from, 70 if
// not. A run that ends with 75 without having been asked to stop, as one does whose start waits for
// a rank that gives no sign of life, is started again with --resume on those of the hosts that
// still answer, as often as the rules allow; so is one whose mpirun failed before any rank had
// begun.
int run_with_restarts(config::RunConfig config, std::vector<std::string> hosts,
                      const LaunchRules& rules);

}  // namespace archipelago::cli
