#include "runtime/silences.h"

namespace archipelago::runtime {
namespace {

double seconds_between(sync::Nanoseconds from, sync::Nanoseconds to) {
  return static_cast<double>(to - from) * 1e-9;
}

}  // namespace

std::vector<SilenceChange> Silences::update(const std::vector<sync::LearnerView>& learners,
                                            sync::Nanoseconds now) {
  std::vector<SilenceChange> changes;
  for (int id = 0; id < static_cast<int>(learners.size()); ++id) {
    const auto& view = learners[static_cast<std::size_t>(id)];
    const bool silent = view.state == sync::LearnerState::suspect;
    const auto known = suspects_.find(id);
    const bool was_silent =
        known != suspects_.end() && known->second.incarnation == view.incarnation;
    if (silent && !was_silent) {
      suspects_[id] = {view.incarnation, view.last_report};
      changes.push_back({id, true, seconds_between(view.last_report, now)});
    } else if (!silent && known != suspects_.end()) {
      // What has become of one that is lost is told elsewhere.
      if (was_silent && sync::is_alive(view.state)) {
        changes.push_back({id, false, seconds_between(known->second.since, now)});
      }
      suspects_.erase(known);
    }
  }
  return changes;
}

}  // namespace archipelago::runtime
