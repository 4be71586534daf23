#include "simulate/optimize.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "simulate/decoupled.h"
#include "simulate/distributions.h"

namespace archipelago::simulate {
namespace {

constexpr double kReferenceSteps = 24;  // the published H, whose learning is the reference
constexpr int kRounds = 4;              // over all dimensions, at most

double log2_of(double value) { return portable_log(std::max(value, 1.0)) / portable_log(2); }

double value_of(const Scenario& scenario, const Outcome& outcome, const LearningCost& cost) {
  const double learners = static_cast<double>(scenario.sync.learners);
  const double lost = cost.doubling * log2_of(learners) +
                      cost.staleness * log2_of(outcome.staleness / kReferenceSteps) +
                      (scenario.model.bits <= 4 ? cost.four_bits : 0);
  return outcome.goodput * std::max(0.0, 1 - lost);
}

struct Dimension {
  const char* name;
  std::vector<double> values;
  std::function<double(const Scenario&)> get;
  std::function<void(Scenario&, double)> set;
};

std::vector<Dimension> dimensions_of(const Scenario& scenario) {
  std::vector<double> learners;
  for (double m = 1; m <= 256 && m * scenario.cluster.slice <= scenario.cluster.chips; m *= 2) {
    learners.push_back(m);
  }
  return {
      {"learners M", learners,
       [](const Scenario& s) { return static_cast<double>(s.sync.learners); },
       [](Scenario& s, double value) {
         s.sync.learners = std::llround(value);
         s.sync.quorum = std::min(s.sync.quorum, s.sync.learners);
       }},
      {"bits on the wire",
       {32, 16, 8, 4},
       [](const Scenario& s) { return s.model.bits; },
       [](Scenario& s, double value) { s.model.bits = value; }},
      {"interval H",
       {6, 12, 24, 48, 96, 192},
       [](const Scenario& s) { return s.sync.interval; },
       [](Scenario& s, double value) { s.sync.interval = value; }},
      {"fragments P",
       {4, 8, 16, 24, 32, 48},
       [](const Scenario& s) { return static_cast<double>(s.sync.fragments); },
       [](Scenario& s, double value) { s.sync.fragments = std::llround(value); }},
      {"overlap tau",
       {1, 2, 4, 8},
       [](const Scenario& s) { return s.sync.overlap; },
       [](Scenario& s, double value) { s.sync.overlap = value; }},
      {"quorum K",
       {1, 2, 4, 8, 16},
       [](const Scenario& s) { return static_cast<double>(s.sync.quorum); },
       [](Scenario& s, double value) {
         s.sync.quorum = std::min<std::int64_t>(std::llround(value), s.sync.learners);
       }},
  };
}

std::vector<Candidate> evaluate(const Scenario& from, const Dimension& dimension,
                                const LearningCost& cost, int threads) {
  std::vector<Candidate> candidates(dimension.values.size());
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.scenario = from;
    dimension.set(candidate.scenario, dimension.values[i]);
    candidate.scenario.train.days = std::min(from.train.days, 1.0);
    candidate.outcome =
        simulate_decoupled(candidate.scenario, static_cast<std::uint64_t>(from.seed));
    candidate.value = value_of(candidate.scenario, candidate.outcome, cost);
  }
  return candidates;
}

std::string percent(double share) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << 100 * share << " %";
  return out.str();
}

// The best value and its neighbours, in words.
std::string reason_of(const Dimension& dimension, const std::vector<Candidate>& candidates,
                      double chosen) {
  std::ostringstream out;
  out << dimension.name << " = " << chosen << ":";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    out << (i == 0 ? " " : ", ") << dimension.values[i] << " gives " << percent(candidates[i].value)
        << " (goodput " << percent(candidates[i].outcome.goodput) << ", staleness "
        << std::setprecision(3) << candidates[i].outcome.staleness << ")";
  }
  return out.str();
}

}  // namespace

Recommendation optimize(const Scenario& scenario, const LearningCost& cost, int threads,
                        const std::function<void(const Candidate&)>& progress) {
  Recommendation result;
  result.best.scenario = scenario;
  result.best.value = -1;
  const std::vector<Dimension> dimensions = dimensions_of(scenario);
  result.reasons.resize(dimensions.size());
  for (int round = 0; round < kRounds; ++round) {
    bool gained = false;
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      const Dimension& dimension = dimensions[d];
      const std::vector<Candidate> candidates =
          evaluate(result.best.scenario, dimension, cost, threads);
      const double days = scenario.train.days;
      for (const Candidate& candidate : candidates) {
        if (candidate.value <= result.best.value * (1 + 1e-6)) continue;
        result.best = candidate;
        result.best.scenario.train.days = days;
        gained = true;
        if (progress) progress(result.best);
      }
      result.reasons[d] = reason_of(dimension, candidates, dimension.get(result.best.scenario));
    }
    if (!gained) break;
  }
  return result;
}

std::string recommendation_text(const Recommendation& recommendation, double budget) {
  const Candidate& best = recommendation.best;
  std::ostringstream out;
  out << "learners M = " << best.scenario.sync.learners
      << ", interval H = " << best.scenario.sync.interval
      << ", fragments P = " << best.scenario.sync.fragments
      << ", quorum K = " << best.scenario.sync.quorum
      << ", overlap tau = " << best.scenario.sync.overlap << ", " << best.scenario.model.bits
      << " bits on the wire\n"
      << "goodput " << percent(best.outcome.goodput) << ", worth " << percent(best.value)
      << " of failure-free data-parallel tokens; " << best.outcome.gbps
      << " Gbit/s a learner's link\n";
  if (budget > 0) {
    out << "a budget of " << budget << " trains "
        << budget / best.outcome.cost_per_token * best.value / best.outcome.goodput
        << " such tokens\n";
  }
  for (const std::string& reason : recommendation.reasons) out << "  " << reason << "\n";
  return out.str();
}

std::string recommendation_json(const Recommendation& recommendation, double budget) {
  const Candidate& best = recommendation.best;
  nlohmann::ordered_json json = {{"learners", best.scenario.sync.learners},
                                 {"interval", best.scenario.sync.interval},
                                 {"fragments", best.scenario.sync.fragments},
                                 {"quorum", best.scenario.sync.quorum},
                                 {"overlap", best.scenario.sync.overlap},
                                 {"bits", best.scenario.model.bits},
                                 {"goodput", best.outcome.goodput},
                                 {"value", best.value},
                                 {"gbps", best.outcome.gbps},
                                 {"reasons", recommendation.reasons}};
  if (budget > 0) {
    json["tokens"] = budget / best.outcome.cost_per_token * best.value / best.outcome.goodput;
  }
  return json.dump(2);
}

}  // namespace archipelago::simulate
