#include "runtime/layout.h"

#include <string>

#include "core/error.h"

namespace archipelago::runtime {

Layout make_layout(const config::Sync& options, int world_size) {
  const Layout layout{options.standby, options.learners + options.spares,
                      options.ranks_per_learner};
  if (layout.world_size() == world_size) return layout;
  throw Error(ExitCode::configuration,
              "the job has " + std::to_string(world_size) + " ranks but the options need " +
                  std::to_string(layout.world_size()) + ": 1 syncer + " +
                  std::to_string(options.standby) + " standby + (" +
                  std::to_string(options.learners) + " learners + " +
                  std::to_string(options.spares) + " spares) x " +
                  std::to_string(options.ranks_per_learner) + " ranks; start with `mpirun -n " +
                  std::to_string(layout.world_size()) + "` or `archipelago launch`");
}

}  // namespace archipelago::runtime
