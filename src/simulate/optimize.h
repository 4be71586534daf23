#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulate/outcome.h"
#include "simulate/scenario.h"

namespace archipelago::simulate {

// What goodput does not see: tokens that a choice needs more of for the same loss, as shares.
// docs/simulator.md says where the defaults come from.
struct LearningCost {
  double doubling = 0.01;   // each doubling of the learners
  double staleness = 0.02;  // each doubling of the inner steps in a contribution beyond 24
  double four_bits = 0.03;  // 4 bits on the wire instead of 16
};

struct Candidate {
  Scenario scenario;
  Outcome outcome;
  double value = 0;  // goodput * (1 - learning costs)
};

struct Recommendation {
  Candidate best;
  std::vector<std::string> reasons;  // one for each of M, H, P, K, tau, bits
};

// Searches learners, interval, fragments, quorum, overlap and bits for the most useful tokens that
// the scenario's cluster can train with the decoupled method: one dimension after the other until
// none gains. Each candidate is simulated for at most a day.
Recommendation optimize(const Scenario& scenario, const LearningCost& cost, int threads,
                        const std::function<void(const Candidate&)>& progress = {});

std::string recommendation_text(const Recommendation& recommendation, double budget);
std::string recommendation_json(const Recommendation& recommendation, double budget);

}  // namespace archipelago::simulate
