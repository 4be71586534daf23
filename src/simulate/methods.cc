#include "simulate/methods.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulate/bandwidth.h"
#include "simulate/decoupled.h"
#include "simulate/summary.h"

namespace archipelago::simulate {
namespace {

// Link speed at which an exchange takes no time worth counting.
constexpr double kNoLimit = 1e9;

double link_utilisation(const Scenario& scenario, Method method) {
  const double gbps = slowest_link(scenario).gbps;
  return utilisation(exchange_of(scenario, method), gbps > 0 ? gbps : kNoLimit);
}

// The mean of the latest of `learners` ends of a step, in standard deviations of one.
double latest_of(std::int64_t learners) {
  const std::int64_t draws = std::max<std::int64_t>(100'000 / learners, 16);
  Random random(1);
  double sum = 0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    double latest = 0;
    for (std::int64_t i = 0; i < learners; ++i) {
      latest = std::max(latest, std::abs(portable_normal(random)));
    }
    sum += latest;
  }
  return sum / static_cast<double>(draws);
}

void set_traffic(const Scenario& scenario, double bits, double exchanges, double parts,
                 Outcome& outcome) {
  const double learners = static_cast<double>(scenario.sync.learners);
  const double factor = 2 * (1 - 1 / std::max(2.0, learners));
  outcome.bytes = 2 * exchanges * learners * factor * scenario.model.parameters * bits / 8 / parts;
  outcome.gbps = outcome.bytes * 8e-9 / (scenario.train.days * 86400) / learners;
}

// All chips step together: one site, and every step waits for its exchange.
Outcome simulate_synchronous(Scenario scenario, bool elastic, std::uint64_t seed) {
  const Scenario asked = scenario;
  const double share =
      link_utilisation(scenario, elastic ? Method::elastic : Method::data_parallel);
  // The slowest chips set the pace, and of them the last at each step.
  scenario.train.step_seconds *=
      (1 + scenario.train.spread) / share +
      (scenario.train.jitter > 0 ? scenario.train.jitter * latest_of(scenario.sync.learners) : 0);
  scenario.train.spread = 0;
  const Nanoseconds end = to_nanoseconds(scenario.train.days * 86400);
  const SiteTimes times = times_of(make_sites(scenario, 1, 0, elastic, seed), end);
  Outcome outcome;
  set_rates(asked, times, static_cast<double>(times.tokens), outcome);
  outcome.utilisation *= share;
  set_traffic(asked, asked.model.gradient_bits,
              times.training * static_cast<double>(end) * 1e-9 / step_seconds_of(scenario, 0), 1,
              outcome);
  return outcome;
}

// The time at which `steps` more whole steps are done, from `begin` on, and the tokens in them; at
// the end of the run at the latest.
Nanoseconds advance(Site& site, Nanoseconds begin, std::int64_t steps, Nanoseconds end,
                    std::int64_t& tokens) {
  Nanoseconds now = begin;
  while (steps > 0 && now < end) {
    const Stretch& stretch = site.stretch_after(now);
    now = std::max(now, stretch.begin);
    const std::int64_t fit = std::min(steps, (stretch.end - now) / stretch.step);
    tokens += fit * stretch.step_tokens;
    steps -= fit;
    now = steps > 0 ? stretch.end : now + fit * stretch.step;
  }
  return std::min(now, end);
}

// By how much a step's end comes late.
Nanoseconds scatter(const Scenario& scenario, Random& random) {
  if (scenario.train.jitter == 0) return 0;
  return to_nanoseconds(std::abs(portable_normal(random)) * scenario.train.jitter *
                        scenario.train.step_seconds);
}

// Learners that exchange every few steps and wait for one another: all of them at each exchange
// (DiLoCo), or for the exchange of tau steps before (Streaming DiLoCo).
Outcome simulate_barriers(const Scenario& scenario, Method method, std::uint64_t seed) {
  const bool streaming = method == Method::streaming_diloco;
  const double parts = streaming ? static_cast<double>(scenario.sync.fragments) : 1;
  const auto block = std::max<std::int64_t>(std::llround(scenario.sync.interval / parts), 1);
  const auto lag =
      streaming
          ? static_cast<std::size_t>(std::ceil(scenario.sync.overlap / static_cast<double>(block)))
          : 0;
  const double share = link_utilisation(scenario, method);
  const Nanoseconds stall =
      to_nanoseconds(static_cast<double>(block) * scenario.train.step_seconds * (1 / share - 1));
  const Nanoseconds end = to_nanoseconds(scenario.train.days * 86400);
  const int learners = static_cast<int>(scenario.sync.learners);
  std::vector<Site> sites = make_sites(scenario, learners, 0, true, seed);
  Random random(mix_bits(seed ^ 0xBA221E2ULL));
  std::vector<Nanoseconds> done(learners, 0);
  std::vector<Nanoseconds> barriers(lag + 1, 0);  // of the latest blocks
  std::int64_t tokens = 0;
  std::int64_t blocks = 0;
  for (; barriers[blocks % (lag + 1)] < end; ++blocks) {
    const Nanoseconds waited = barriers[blocks % (lag + 1)];
    Nanoseconds last = 0;
    for (int learner = 0; learner < learners; ++learner) {
      done[learner] = advance(sites[learner], std::max(done[learner], waited), block, end, tokens);
      last = std::max(last, done[learner] + scatter(scenario, random));
    }
    barriers[blocks % (lag + 1)] = last + stall;
    if (blocks % 1024 == 0) {
      for (Site& site : sites) site.forget(waited);
    }
  }
  const SiteTimes times = times_of(make_sites(scenario, learners, 0, true, seed), end);
  Outcome outcome;
  set_rates(scenario, times, static_cast<double>(tokens), outcome);
  outcome.utilisation = outcome.goodput / std::max(times.capacity, 1e-9);
  outcome.availability = outcome.utilisation;
  outcome.rounds = static_cast<double>(blocks);
  outcome.contributors = learners;
  set_traffic(scenario, scenario.model.bits, static_cast<double>(blocks), parts, outcome);
  return outcome;
}

}  // namespace

Outcome simulate(const Scenario& scenario, Method method, std::uint64_t seed) {
  switch (method) {
    case Method::data_parallel:
      return simulate_synchronous(scenario, false, seed);
    case Method::elastic:
      return simulate_synchronous(scenario, true, seed);
    case Method::decoupled:
      return simulate_decoupled(scenario, seed);
    default:
      return simulate_barriers(scenario, method, seed);
  }
}

}  // namespace archipelago::simulate
