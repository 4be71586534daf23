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

// A guest is to train, not to sleep.
void SyncerProcess::make_place_for_guest() {
  const auto is_open = [](const sync::LearnerView& view) {
    return view.state == sync::LearnerState::lost;
  };
  if (std::ranges::any_of(machine_.learners(), is_open)) return;
  const int learners = machine_.wanted() + 1;
  if (const auto why = why_not_scale(learners)) {
    log_info("a guest stays a spare: " + *why);
  } else {
    log_info(std::to_string(learners) + " learners are wanted, with a guest");
    scale(learners);
  }
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
           " and gets no more: start it with more sync.spares, with sync.listen, or with sync.refill, "
           "one syncer and no standby";
  }
  return std::nullopt;
}

}  // namespace archipelago::runtime
