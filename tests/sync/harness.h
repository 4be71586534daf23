#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "sync/machine.h"

namespace archipelago::sync {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kSecond = 1'000'000'000;

// The actions of one type, in order.
template <typename T>
std::vector<T> only(const std::vector<Action>& actions) {
  std::vector<T> result;
  for (const Action& action : actions) {
    if (const T* match = std::get_if<T>(&action)) result.push_back(*match);
  }
  return result;
}

// Tells a machine one event at a time.
class Harness {
 public:
  explicit Harness(const Settings& wanted, const Restored& restored = {})
      : settings(wanted), machine(wanted, restored) {}

  std::vector<Action> tell(Nanoseconds now, const Event& event) {
    std::vector<Action> actions;
    machine.handle(now, event, actions);
    return actions;
  }

  // Ticks whenever one is due, up to `until`.
  std::vector<Action> tick_until(Nanoseconds until) {
    std::vector<Action> actions;
    while (machine.next_wakeup() && *machine.next_wakeup() <= until) {
      machine.handle(*machine.next_wakeup(), Tick{}, actions);
    }
    return actions;
  }

  // A report of the learner's present life that holds every fragment at the present clock.
  Report report(int learner, std::int64_t step, double step_seconds = 1) const {
    return {learner,
            machine.learners()[learner].incarnation,
            step,
            step * settings.batch_tokens,
            step_seconds,
            2.0,
            machine.versions()};
  }

  // The answer to an Ask of the learner's present life.
  Delivery delivery(int learner, std::int64_t round, double norm = 1,
                    std::int64_t steps = 2) const {
    const int fragment = static_cast<int>((round - 1) % settings.fragments);
    return {learner,
            machine.learners()[learner].incarnation,
            round,
            fragment,
            machine.versions()[fragment],
            steps,
            steps * settings.batch_tokens,
            100 * settings.batch_tokens,
            2.0,
            norm};
  }

  // Brings learners 0 .. count-1 to life on their home islands and makes them active at `now`.
  // Returns the actions of the last report, which opens the first round when step_seconds > 0.
  std::vector<Action> start(int count, Nanoseconds now = 0, double step_seconds = 1) {
    std::vector<Action> actions;
    for (int learner = 0; learner < count; ++learner) tell(now, IslandReady{learner});
    for (int learner = 0; learner < count; ++learner) {
      actions = tell(now, report(learner, 1, learner + 1 == count ? step_seconds : 0));
    }
    return actions;
  }

  Settings settings;
  Machine machine;
};

}  // namespace archipelago::sync
