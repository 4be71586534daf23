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
    scale(*learners);
  }
}

void SyncerProcess::scale(int learners) {
  tell(sync::ScaleRequested{learners});
  next_status_ = 0;
}

void SyncerProcess::note_wanted() {
  const int learners = machine_.wanted();
  const int guests = machine_.guest_places();
  log_info((learners == 1 ? "1 learner is" : std::to_string(learners) + " learners are") +
           " wanted now" + (guests > 0 ? ", guests among them: " + std::to_string(guests) : ""));
  statistics_.set_learners(learners, now_seconds());
  next_status_ = 0;
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
