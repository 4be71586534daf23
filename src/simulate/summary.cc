#include "simulate/summary.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace archipelago::simulate {
namespace {

constexpr double kDay = 86400;

// Tokens a second of the cluster without failures: each learner at its own step time.
double ideal_rate(const Scenario& scenario) {
  const int learners = static_cast<int>(scenario.sync.learners);
  double rate = 0;
  for (int number = 0; number < learners; ++number) {
    const double place = learners > 1 ? static_cast<double>(number) / (learners - 1) : 0;
    rate += scenario.train.batch_tokens / learners /
            (scenario.train.step_seconds * (1 + scenario.train.spread * place));
  }
  return rate;
}

}  // namespace

SiteTimes times_of(std::vector<Site> sites, Nanoseconds end) {
  // All stretches in the order in which they begin.
  using Next = std::pair<Nanoseconds, std::size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  for (std::size_t i = 0; i < sites.size(); ++i) queue.push({sites[i].stretch_after(0).begin, i});
  SiteTimes times;
  Nanoseconds covered = 0;
  Nanoseconds available = 0;
  double training = 0;
  double capacity = 0;
  while (!queue.empty() && queue.top().first < end) {
    Site& site = sites[queue.top().second];
    const std::size_t number = queue.top().second;
    const Stretch stretch = site.stretch_after(queue.top().first);
    queue.pop();
    const Nanoseconds last = std::min(stretch.end, end);
    training += static_cast<double>(last - stretch.begin);
    capacity += stretch.capacity * static_cast<double>(last - stretch.begin);
    available += std::max<Nanoseconds>(last - std::max(stretch.begin, covered), 0);
    covered = std::max(covered, last);
    if (last == end) continue;
    site.forget(stretch.begin);
    queue.push({site.stretch_after(stretch.end).begin, number});
  }
  for (Site& site : sites) times.tokens += site.done_by(end).tokens;
  const double all = static_cast<double>(end) * static_cast<double>(sites.size());
  times.training = training / all;
  times.capacity = training > 0 ? capacity / training : 0;
  times.availability = static_cast<double>(available) / static_cast<double>(end);
  return times;
}

void set_rates(const Scenario& scenario, const SiteTimes& times, double tokens, Outcome& outcome) {
  const double seconds = scenario.train.days * kDay;
  outcome.goodput = tokens / (ideal_rate(scenario) * seconds);
  outcome.availability = times.availability;
  // The writing of checkpoints is part of the steps' time.
  outcome.utilisation = times.training * scenario.train.step_seconds / step_seconds_of(scenario, 0);
  outcome.tokens_per_day = tokens / scenario.train.days;
  const double watts = outcome.utilisation * scenario.cluster.chip_watts +
                       (1 - outcome.utilisation) * scenario.cluster.idle_watts;
  if (tokens <= 0) {
    outcome.energy_per_token = outcome.cost_per_token = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  outcome.energy_per_token = watts * scenario.cluster.chips * seconds / tokens;
  outcome.cost_per_token =
      scenario.cluster.chips * seconds / 3600 * scenario.cluster.chip_hour_price / tokens;
}

}  // namespace archipelago::simulate
