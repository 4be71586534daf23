#include <algorithm>

#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {

void SyncerProcess::watch_for_scale() {
  if (!statistics_.started()) return;  // the learners that it started with come first
  const auto learners = scaling_.take(folder_.scale());
  if (!learners) return;
  if (const auto why = why_not_scale(*learners)) {
    scaling_.refuse(*why);
    next_status_ = 0;
  } else {
    log_info(std::to_string(*learners) + " learners are wanted");
    scale(*learners);
  }
}

void SyncerProcess::scale(int learners) {
  statistics_.set_learners(learners, now_seconds());
  tell(sync::ScaleRequested{learners});
  next_status_ = 0;
}

void SyncerProcess::welcome_guest(int peer) {
  const int before = machine_.wanted();
  tell(sync::GuestReady{peer});
  next_status_ = 0;
  if (machine_.wanted() == before) return;
  log_info(std::to_string(machine_.wanted()) + " learners are wanted, with a guest");
  statistics_.set_learners(machine_.wanted(), now_seconds());
}

std::optional<std::string> SyncerProcess::why_not_scale(int learners) const {
  const int shards = machine_.most_learners();
  if (learners < 1 || learners > shards) {
    return "there can be 1 to " + std::to_string(shards) +
           " learners (as many as the data has shards), not " + std::to_string(learners);
  }
  if (machine_.ending()) return "the run is ending";
  const auto islands = std::count_if(islands_.begin(), islands_.end(),
                                     [](const IslandBook& book) { return !book.lost; });
  if (learners > islands && !config::can_grow(setup_.config.sync)) {
    return std::to_string(learners) + " learners need as many islands, the job has " +
           std::to_string(islands) +
           " and gets no more: start it with more sync.spares, with sync.listen, or with "
           "sync.refill, "
           "one syncer and no standby";
  }
  return std::nullopt;
}

}  // namespace archipelago::runtime
