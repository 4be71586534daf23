#include "emulate/conditions.h"

#include <algorithm>
#include <string>

#include "config/options.h"
#include "core/error.h"
#include "runtime/chaos.h"
#include "simulate/distributions.h"
#include "simulate/scenario.h"

namespace archipelago::emulate {
namespace {

constexpr double kYear = 365.0 * 86'400;
constexpr double kLeastShare = 0.1;  // of its mean that a step takes
constexpr double kShortestStep = 1e-6;
constexpr double kLongestRun = 10 * kYear;

bool can_play(const runtime::PlannedFault& fault) {
  using Kind = runtime::FaultKind;
  using runtime::Moment;
  const bool kind =
      fault.kind == Kind::kill || fault.kind == Kind::stop || fault.kind == Kind::slow;
  return kind && (fault.moment == Moment::any || fault.moment == Moment::join);
}

double in_turn(const std::vector<double>& list, int number) {
  return list[static_cast<std::size_t>(number) % list.size()];
}

double seconds_without_faults(const config::RunConfig& config, const Conditions& c) {
  const double tokens = static_cast<double>(config.train.steps) *
                        static_cast<double>(config.train.batch * config.model.context) *
                        config.sync.learners;
  return tokens / failure_free_rate(config, c);
}

}  // namespace

std::vector<config::Option> options_of(Conditions& c) {
  return {
      simulate::numbers("train.step_seconds", c.step_seconds, kYear,
                        "virtual seconds of an inner step; a list: of each learner in turn"),
      config::real("train.jitter", c.jitter, 0, 0.3,
                   "standard deviation of a step's time, as a share"),
      simulate::numbers("link.gbps", c.gbps, 1e9,
                        "Gbit/s of a learner's link; 0: no limit; a list: of each in turn"),
      simulate::numbers("link.latency", c.latency, 1e4, "seconds one way; a list: of each in turn"),
      config::real("sync.merge_seconds", c.merge_seconds, 0, 1e4, "of a merge at the syncer"),
      config::real("restart.join", c.join_seconds, 0, kYear,
                   "seconds until a lost learner's next life can train"),
      config::real("failure.return_seconds", c.return_seconds, 0, kYear,
                   "mean time until a killed island is there again"),
  };
}

void check(const config::RunConfig& config, const Conditions& c) {
  std::string problems;
  const auto require = [&](bool holds, const std::string& problem) {
    if (!holds) problems += (problems.empty() ? "" : "; ") + problem;
  };
  const bool decoupled = config::has_syncer(config);
  require(decoupled || config.method == "data-parallel",
          "method must be decoupled or data-parallel, not " + config.method);
  require(config.sync.ranks_per_learner == 1, "sync.ranks_per_learner must be 1");
  require(config.sync.syncers == 1 && config.sync.standby == 0,
          "there is one syncer: leave sync.syncers and sync.standby out");
  require(config.sync.listen.empty(), "nobody joins from outside: leave sync.listen out");
  require(config.device != "cuda", "device must be cpu");
  require(!config.resume && !config.profile, "leave resume and profile out");
  require(std::ranges::min(c.step_seconds) >= kShortestStep,
          "train.step_seconds must be at least 1e-6");
  require(seconds_without_faults(config, c) <= kLongestRun,
          "a run without faults would take more than ten years of virtual time: less train.steps "
          "or train.step_seconds");
  require(!decoupled || c.join_seconds + 2 * std::ranges::max(c.latency) < config.sync.expel,
          "restart.join and twice link.latency must be below sync.expel, or every joining learner "
          "is expelled");
  const auto plan = runtime::parse_chaos(config.chaos);
  require(std::ranges::all_of(plan, can_play),
          "of chaos only kill, stop and slow are there, at once or when=join");
  if (!problems.empty()) throw Error(ExitCode::configuration, "emulate: " + problems);
  runtime::require_targets(plan, config.sync.learners, 1);
}

Site site_of(const Conditions& c, int number) {
  return {in_turn(c.step_seconds, number), in_turn(c.gbps, number), in_turn(c.latency, number)};
}

double failure_free_rate(const config::RunConfig& config, const Conditions& c) {
  double rate = 0;
  for (int learner = 0; learner < config.sync.learners; ++learner) {
    const auto batch = config::for_learner(config, learner).train.batch;
    rate += static_cast<double>(batch * config.model.context) / site_of(c, learner).step_seconds;
  }
  return rate;
}

Random random_of_island(std::uint64_t seed, int number) {
  return Random(mix_bits(seed ^ mix_bits(static_cast<std::uint64_t>(number))));
}

double step_seconds_of(const Conditions& c, int site, Random& random) {
  const double jitter = c.jitter > 0 ? c.jitter * simulate::portable_normal(random) : 0;
  return std::max(1 + jitter, kLeastShare) * site_of(c, site).step_seconds;
}

}  // namespace archipelago::emulate
