#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sync/messages.h"
#include "sync/tape.h"

namespace archipelago::simulate {

using sync::Nanoseconds;

// Values that a run had, by the time at which each was.
template <typename Value>
class Trace {
 public:
  void add(Nanoseconds time, const Value& value) { entries_.emplace_back(time, value); }

  // Before at(), where times were not added in order.
  void sort() {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  bool empty() const { return entries_.empty(); }

  // The value of the nearest time; a default one where there is none.
  Value at(Nanoseconds time) const {
    const auto after = std::lower_bound(
        entries_.begin(), entries_.end(), time,
        [](const auto& entry, Nanoseconds moment) { return entry.first < moment; });
    if (after == entries_.end()) return empty() ? Value{} : entries_.back().second;
    if (after == entries_.begin()) return after->second;
    const auto before = std::prev(after);
    return time - before->first < after->first - time ? before->second : after->second;
  }

 private:
  std::vector<std::pair<Nanoseconds, Value>> entries_;
};

// How a learner answered an ask.
struct Response {
  Nanoseconds delay = 0;  // until the delivery had come, or would have: a learner that hears of the
                          // round's end before does not answer
  double norm = 1;        // of the change, for each inner step in it
};

struct RecordedReport {
  Nanoseconds time;
  std::int64_t tokens;
  double step_seconds;
  double loss;
};

// A learner from its assignment to its death or expulsion.
struct RecordedLife {
  Nanoseconds assigned = 0;
  Nanoseconds active = 0;         // when it first held every fragment
  std::int64_t first_tokens = 0;  // of the learner when it was assigned
  std::vector<RecordedReport> reports;
  Nanoseconds lost = -1;  // when its island was seen to be dead; -1: it was not
};

struct RecordedLearner {
  std::vector<RecordedLife> lives;
  Trace<Response> responses;
  Trace<Nanoseconds> installs;  // from a publication until the learner holds it
};

// What befell a real run, apart from what its state machine decided.
struct Recorded {
  sync::TapeStart start;
  std::vector<RecordedLearner> learners;
  Trace<Nanoseconds> merges;  // from Merge to Merged
  Trace<Nanoseconds> ticks;   // by which the syncer saw a time limit late
  std::vector<std::pair<Nanoseconds, sync::Event>> requests;  // to stop or to scale
  Nanoseconds end = 0;                                        // of the tape
  bool finished = false;                                      // the run came to its end
};

// What a run came to.
struct RunOutcome {
  Nanoseconds begin = 0;  // the first active learner
  Nanoseconds end = 0;
  std::int64_t tokens = 0;  // since its start, each once
  std::int64_t rounds = 0;
  std::int64_t merges = 0;
  int losses = 0;
  std::vector<std::int64_t> contributions;  // merged, by learner
};

// Decides everything anew with what befell the run: learners step, die, come and answer as they
// did, the state machine goes its own way.
RunOutcome run_again(const Recorded& recorded);

}  // namespace archipelago::simulate
