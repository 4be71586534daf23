#include "runtime/rejoins.h"

namespace archipelago::runtime {

void Rejoins::lose(int learner, int incarnation, double now) {
  lost_[learner] = {incarnation + 1, now};
}

void Rejoins::begin(int learner, int incarnation) {
  if (const auto lost = lost_.find(learner); lost != lost_.end()) {
    lost->second.next_incarnation = incarnation;
  }
}

std::vector<Rejoins::Rejoin> Rejoins::take(const std::vector<sync::LearnerView>& learners,
                                           double now) {
  std::vector<Rejoin> rejoins;
  std::erase_if(lost_, [&](const auto& entry) {
    const auto& [learner, loss] = entry;
    const auto& view = learners[static_cast<std::size_t>(learner)];
    if (view.incarnation != loss.next_incarnation || view.state != sync::LearnerState::active) {
      return false;
    }
    rejoins.push_back({learner, view.incarnation, now - loss.time});
    seconds_.push_back(now - loss.time);
    return true;
  });
  return rejoins;
}

}  // namespace archipelago::runtime
