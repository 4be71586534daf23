#pragma once

#include <map>
#include <vector>

#include "sync/membership.h"

namespace archipelago::runtime {

// A learner that has turned suspect, or is back.
struct SilenceChange {
  int learner;
  bool silent;
  double seconds;  // since it was last heard of before
};

// Who among the learners is suspect, so that it is told once when one turns so and once when it is
// heard of again.
class Silences {
 public:
  // What has changed by `now`, on the machine's clock, since the call before.
  std::vector<SilenceChange> update(const std::vector<sync::LearnerView>& learners,
                                    sync::Nanoseconds now);

  bool any() const { return !suspects_.empty(); }

 private:
  struct Suspect {
    int incarnation;
    sync::Nanoseconds since;
  };
  std::map<int, Suspect> suspects_;  // by learner
};

}  // namespace archipelago::runtime
