#include "runtime/layout.h"

#include <string>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

std::string parts_of(const config::RunConfig& config) {
  const auto& options = config.sync;
  const std::string ranks = " x " + std::to_string(options.ranks_per_learner) + " ranks";
  const std::string learners = std::to_string(options.learners) + " learners";
  if (!config::outlives_deaths(config)) return learners + ranks;
  const std::string islands =
      "(" + learners + " + " + std::to_string(options.spares) + " spares)" + ranks;
  if (config::has_coordinator(config)) return "1 coordinator + " + islands;
  return std::to_string(options.syncers) + (options.syncers == 1 ? " syncer + " : " syncers + ") +
         std::to_string(options.standby) + " standby + " + islands;
}

}  // namespace

Layout make_layout(const config::RunConfig& config, int world_size) {
  const int syncers = config::syncers_of(config);
  const int merging = config::has_syncer(config) ? config.sync.syncers : syncers;
  const Layout layout{merging, syncers, config::islands_of(config), config.sync.ranks_per_learner};
  if (layout.world_size() == world_size) return layout;
  throw Error(ExitCode::configuration,
              "the job has " + std::to_string(world_size) + " ranks but the options need " +
                  std::to_string(layout.world_size()) + ": " + parts_of(config) +
                  "; start with `mpirun -n " + std::to_string(layout.world_size()) +
                  "` or `archipelago launch`");
}

}  // namespace archipelago::runtime
