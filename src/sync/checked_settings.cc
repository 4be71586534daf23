#include "sync/checked_settings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "core/error.h"

namespace archipelago::sync {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kMostLearners = 1 << 16;
constexpr double kMostFragments = 100'000;
constexpr double kMostCounts = 1 << 29;  // a count for each learner and fragment
constexpr double kLongest = 4.6e18;      // nanoseconds; the sum of two is one, too

// From `least` to `most`; an unbounded one is finite all the same.
template <typename Number>
void require(const std::string& name, Number value, double least, double most) {
  const auto number = static_cast<double>(value);
  if (number >= least && number <= most && std::isfinite(number)) return;
  std::ostringstream problem;
  problem << "no run can have the setting " << name << " = " << value << ": at least " << least;
  if (most < kUnbounded) problem << ", at most " << most;
  throw Error(ExitCode::bad_data, problem.str());
}

void require_data(const Settings& settings) {
  const std::size_t groups = settings.shards.size();
  if (settings.windows.size() != groups) {
    throw Error(ExitCode::bad_data, "no run can have data shards of " + std::to_string(groups) +
                                        " groups of learners and sequences of " +
                                        std::to_string(settings.windows.size()));
  }
  for (std::size_t group = 0; group < groups; ++group) {
    require("shards", settings.shards[group], 1, std::numeric_limits<int>::max());
    require("windows", settings.windows[group], 1, kUnbounded);
  }
  const auto last_group = static_cast<double>(std::max<std::size_t>(groups, 1) - 1);
  for (const int group : settings.groups) require("groups", group, 0, last_group);
  require("groups", settings.groups.size(), 0, kMostLearners);
  require("sequence_tokens", settings.sequence_tokens, 1, kUnbounded);
}

}  // namespace

const Settings& checked(const Settings& settings) {
  require("learners", settings.learners, 1, kMostLearners);
  require("fragments", settings.fragments, 1,
          std::min(kMostFragments, kMostCounts / settings.learners));
  require("interval", settings.interval, std::numeric_limits<double>::min(), kUnbounded);
  require("overlap", settings.overlap, 0, kUnbounded);
  require("quorum", settings.quorum, 0, kMostLearners);
  require("grace", settings.grace, 0, kUnbounded);
  require("grace_cap", settings.grace_cap, 0, kLongest);
  require("suspect_after", settings.suspect_after, 0, kLongest);
  require("expel_after", settings.expel_after, 0, kLongest);
  require("outlier", settings.outlier, 0, kUnbounded);
  require("loss_limit", settings.loss_limit, 0, kUnbounded);
  require("max_open_rounds", settings.max_open_rounds, 1, kMostFragments);
  require("spares", settings.spares, 0, kMostLearners);
  require("token_budget", settings.token_budget, 0, kUnbounded);
  require("batch_tokens", settings.batch_tokens, 1, kUnbounded);
  require("checkpoint_rounds", settings.checkpoint_rounds, 1, kUnbounded);
  require("checkpoint_after", settings.checkpoint_after, 0, kUnbounded);
  require_data(settings);
  return settings;
}

}  // namespace archipelago::sync
