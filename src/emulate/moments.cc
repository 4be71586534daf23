#include "emulate/moments.h"

#include <algorithm>
#include <vector>

namespace archipelago::emulate {

void Moments::save(runtime::LearnerState& state) {
  std::vector<float> room;
  const auto arrays = state.arrays(room);
  checkpoint::Learner& saved = saved_[state.learner()];
  saved.learner = state.learner();
  saved.step = state.steps();
  saved.adam_steps = state.checkpoint().adam_steps;
  saved.adam_m.assign(arrays.adam_m.begin(), arrays.adam_m.end());
  saved.adam_v.assign(arrays.adam_v.begin(), arrays.adam_v.end());
}

std::optional<checkpoint::Learner> Moments::newest(int learner) const {
  if (const auto own = saved_.find(learner); own != saved_.end()) return own->second;
  const auto newest =
      std::ranges::max_element(saved_, {}, [](const auto& entry) { return entry.second.step; });
  return newest == saved_.end() ? std::nullopt : std::optional(newest->second);
}

}  // namespace archipelago::emulate
