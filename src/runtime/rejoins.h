#pragma once

#include <map>
#include <vector>

#include "sync/machine.h"

namespace archipelago::runtime {

// How long lost learners were away, by any clock.
class Rejoins {
 public:
  struct Rejoin {
    int learner;
    int incarnation;  // its present life
    double seconds;   // since the life before ended
  };

  // The learner's life has ended.
  void lose(int learner, int incarnation, double now);
  // A life of it begins.
  void begin(int learner, int incarnation);
  // It has left on request.
  void forget(int learner) { lost_.erase(learner); }

  // Those that have come to count again since the last call.
  std::vector<Rejoin> take(const std::vector<sync::LearnerView>& learners, double now);

  const std::vector<double>& seconds() const { return seconds_; }  // of all so far

 private:
  struct Loss {
    int next_incarnation;
    double time;
  };
  std::map<int, Loss> lost_;  // by learner
  std::vector<double> seconds_;
};

}  // namespace archipelago::runtime
