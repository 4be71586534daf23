#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sync/messages.h"

namespace archipelago::runtime {

// How much of what learners send is merged, and why the rest is not. Warns of a learner whose work
// is unsound, not more often than once a minute.
class MergeStatistics {
 public:
  void add(const sync::Merge& merge);
  void add(const sync::Discard& discard, double now);

  std::int64_t merges() const { return merges_; }
  // Learners a merge, a mean; 0 before the first.
  double contributors() const;
  // Fragments that were dropped, by the machine's reason.
  const std::map<std::string, std::int64_t>& dropped() const { return dropped_; }

 private:
  struct Unsound {
    double next_warning = 0;
    std::int64_t untold = 0;  // fragments since the last one
  };

  std::int64_t merges_ = 0;
  std::int64_t contributions_ = 0;
  std::map<std::string, std::int64_t> dropped_;
  std::map<int, Unsound> unsound_;  // by learner
};

}  // namespace archipelago::runtime
