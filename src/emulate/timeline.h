#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "simulate/event_queue.h"
#include "sync/messages.h"

namespace archipelago::emulate {

using sync::Nanoseconds;

// Virtual time ends here (146 years): what is later never happens.
inline constexpr Nanoseconds kEndOfTime = Nanoseconds{1} << 62;

// `seconds`, at least 0 and of any size, after `time`, which is not after the end.
constexpr Nanoseconds after(Nanoseconds time, double seconds) {
  const double left = static_cast<double>(kEndOfTime - time);
  return seconds * 1e9 < left ? time + static_cast<Nanoseconds>(seconds * 1e9) : kEndOfTime;
}

constexpr Nanoseconds to_nanoseconds(double seconds) { return after(0, seconds); }

// Virtual time, and what is to happen in it.
class Timeline {
 public:
  Nanoseconds now() const { return now_; }
  double seconds() const { return static_cast<double>(now_) * 1e-9; }
  Nanoseconds in(double seconds) const { return after(now_, seconds); }

  void at(Nanoseconds time, std::function<void()> what) {
    queue_.push(std::max(time, now_), std::move(what));
  }

  bool empty() const { return queue_.empty(); }
  Nanoseconds next_time() const { return queue_.next_time(); }  // precondition !empty()

  // Goes on to the next entry and does it; precondition !empty().
  void run_next() {
    now_ = queue_.next_time();
    queue_.pop()();
  }

  // Goes on without doing anything; no entry is earlier.
  void advance_to(Nanoseconds time) { now_ = std::max(now_, time); }

 private:
  simulate::EventQueue<std::function<void()>> queue_;
  Nanoseconds now_ = 0;
};

}  // namespace archipelago::emulate
