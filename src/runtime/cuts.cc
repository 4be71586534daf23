#include "runtime/cuts.h"

#include <algorithm>
#include <utility>

namespace archipelago::runtime {

std::int64_t Cuts::begin(std::int64_t round, const GlobalState& own, int fragments) {
  int missing = 0;
  for (int p = 0; p < fragments; ++p) missing += own.holds(p) ? 0 : 1;
  cuts_.push_back({++number_, round, own, missing});
  return number_;
}

void Cuts::save_newest(std::int64_t round, std::shared_ptr<checkpoint::Global> file) {
  if (!cuts_.empty() && cuts_.back().round == round) cuts_.back().file = std::move(file);
}

std::optional<Cuts::Cut> Cuts::take(link::ReplicaMessage part) {
  const auto cut = std::ranges::find(cuts_, part.header.cut, &Cut::number);
  if (cut == cuts_.end()) return std::nullopt;
  cut->state.put({part.header.fragment, std::make_shared<const link::Values>(std::move(part.theta)),
                  std::make_shared<const link::Values>(std::move(part.momentum))},
                 part.header.version);
  if (--cut->missing > 0) return std::nullopt;
  std::optional<Cut> whole(std::move(*cut));
  cuts_.erase(cut);
  return whole;
}

}  // namespace archipelago::runtime
