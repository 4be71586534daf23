#include "runtime/merge_statistics.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/log.h"

namespace archipelago::runtime {
namespace {

constexpr double kWarningSeconds = 60;
constexpr const char* kUnsound[] = {"diverged", "not finite", "outlier", "too long alone"};

}  // namespace

void MergeStatistics::add(const sync::Merge& merge) {
  ++merges_;
  contributions_ += std::ssize(merge.contributions);
}

void MergeStatistics::add(const sync::Discard& discard, double now) {
  ++dropped_[discard.reason];
  if (std::ranges::find(kUnsound, discard.reason) == std::end(kUnsound)) return;
  Unsound& learner = unsound_[discard.learner];
  ++learner.untold;
  if (now < learner.next_warning) return;
  learner.next_warning = now + kWarningSeconds;
  log_warning("learner " + std::to_string(discard.learner) + " is unsound (" + discard.reason +
              "): " + std::to_string(std::exchange(learner.untold, 0)) +
              " of its fragments not merged; it takes the global state");
}

double MergeStatistics::contributors() const {
  return merges_ > 0 ? static_cast<double>(contributions_) / static_cast<double>(merges_) : 0;
}

}  // namespace archipelago::runtime
