#include "simulate/site.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/error.h"

namespace archipelago::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLongest = 9e9;  // seconds that Nanoseconds hold

}  // namespace

Nanoseconds to_nanoseconds(double seconds) {
  return std::llround(std::min(seconds, kLongest) * 1e9);
}

std::vector<TracedFailure> read_trace(const std::string& path) {
  std::vector<TracedFailure> trace;
  if (path.empty()) return trace;
  std::ifstream file(path);
  if (!file) throw Error(ExitCode::configuration, "failure.trace: cannot read " + path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line.front() == '#' || line.starts_with("time_s")) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    TracedFailure failure{};
    if (!(fields >> failure.time >> failure.chip >> failure.back) || failure.time < 0 ||
        failure.back < 0 || failure.chip < 0 ||
        (!trace.empty() && failure.time < trace.back().time)) {
      throw Error(ExitCode::bad_data, path + ":" + std::to_string(number) +
                                          ": expected time_s,chip,return_s with ascending times");
    }
    trace.push_back(failure);
  }
  return trace;
}

Site::Site(const Scenario& scenario, const SiteSettings& settings,
           const std::vector<TracedFailure>& trace, std::uint64_t seed)
    : scenario_(scenario),
      settings_(settings),
      random_(mix_bits(seed) + static_cast<std::uint64_t>(settings.number) * 0x9E37ULL),
      domain_random_(0),
      return_(scenario.failure.return_seconds, scenario.failure.return_shape,
              scenario.failure.return_power),
      next_failure_(kNever),
      next_domain_(kNever),
      next_spot_(kNever),
      available_(settings.slices) {
  random_ = Random(random_.next());
  const double chips = static_cast<double>(settings.slices) * scenario.cluster.slice;
  for (const TracedFailure& failure : trace) {
    if (failure.chip >= settings.first_chip && failure.chip < settings.first_chip + chips) {
      trace_.push_back(failure);
    }
  }
  const double domain = scenario.failure.domain_chips;
  domain_is_site_ = domain >= chips;
  if (domain > 0) {
    domain_slices_ = std::max<std::int64_t>(std::llround(domain / scenario.cluster.slice), 1);
  }
  const auto domain_number =
      domain_is_site_ ? static_cast<std::uint64_t>(settings.first_chip / domain) : 0;
  domain_random_ =
      domain_is_site_ ? Random(mix_bits(seed ^ 0xD0A1ULL) + domain_number) : Random(random_.next());
  plan_failure(0);
  plan_domain(0);
  plan_spot(0);
}

Site::Site(std::vector<Stretch> recorded)
    : recorded_(true),
      random_(0),
      domain_random_(0),
      return_(1, 1, 1),
      next_failure_(kNever),
      next_domain_(kNever),
      next_spot_(kNever),
      available_(1),
      stretches_(recorded.begin(), recorded.end()) {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  for (Stretch& stretch : stretches_) {
    stretch.steps = steps;
    stretch.tokens = tokens;
    const std::int64_t done = (stretch.end - stretch.begin) / stretch.step;
    steps += done;
    tokens += done * stretch.step_tokens;
  }
  stretches_.back().end = std::numeric_limits<Nanoseconds>::max();
  stretches_.back().dies = false;
}

double Site::until(double mean) { return Duration(mean, 1, 1).sample(random_); }

void Site::plan_failure(double now) {
  if (!scenario_.failure.trace.empty()) {
    next_failure_ = traced_ < trace_.size() ? trace_[traced_].time : kNever;
    return;
  }
  const double chips = static_cast<double>(settings_.slices) * scenario_.cluster.slice;
  next_failure_ = now + until(scenario_.failure.mtbf_hours * 3600 / chips);
}

void Site::plan_domain(double now) {
  if (scenario_.failure.domain_chips == 0) return;
  const double chips = static_cast<double>(settings_.slices) * scenario_.cluster.slice;
  const double domains = domain_is_site_ ? 1 : chips / scenario_.failure.domain_chips;
  const double mean = scenario_.failure.domain_mtbf_hours * 3600 / domains;
  next_domain_ = now + Duration(mean, 1, 1).sample(domain_random_);
}

void Site::plan_spot(double now) {
  const double spot = scenario_.failure.spot_share * static_cast<double>(settings_.slices);
  if (spot == 0) return;
  // Those that are away are not taken again: thinned in next_change().
  next_spot_ = now + until(scenario_.failure.spot_hours * 3600 / spot);
}

// The next thing that happens after now_; a failure also plans its return.
Site::Change Site::next_change() {
  const double back = returns_.empty() ? kNever : returns_.top().time;
  const double waited = waiting_until_.value_or(kNever);
  const double first = std::min({next_failure_, next_domain_, next_spot_, back, waited});
  if (first == waited) return {Change::Kind::waited, first, 0};
  if (first == back) {
    const Return top = returns_.top();
    returns_.pop();
    return {Change::Kind::gain, first, top.slices};
  }
  if (first == next_domain_) {
    const double until_back =
        Duration(scenario_.failure.domain_return_seconds, 1, 1).sample(domain_random_);
    plan_domain(first + (domain_is_site_ ? until_back : 0));
    if (domain_is_site_) return {Change::Kind::death, first, to_nanoseconds(until_back)};
    const std::int64_t lost = std::min(domain_slices_, available_);
    returns_.push({first + until_back, lost});
    return {Change::Kind::loss, first, lost};
  }
  const bool spot = first == next_spot_;
  double until_back = 0;
  if (spot) {
    until_back = until(scenario_.failure.spot_return_hours * 3600);
    plan_spot(first);
  } else {
    until_back = scenario_.failure.trace.empty() ? return_.sample(random_) : trace_[traced_].back;
    ++traced_;
    plan_failure(first);
  }
  // A slice that is away cannot fail.
  const bool hits = random_.below(static_cast<std::uint64_t>(settings_.slices)) <
                    static_cast<std::uint64_t>(available_);
  if (hits) returns_.push({first + until_back, 1});
  return {Change::Kind::loss, first, hits ? 1 : 0};
}

void Site::apply(const Change& change) {
  now_ = change.time;
  if (change.kind == Change::Kind::loss) available_ -= change.slices;
  if (change.kind == Change::Kind::gain) available_ += change.slices;
}

// Makes the stretch that begins where training goes on after the last one.
void Site::extend() {
  const Restart& restart = scenario_.restart;
  const double down = settings_.elastic ? restart.down : restart.rigid_down;
  const double up = settings_.elastic ? restart.up : restart.rigid_up;
  Stretch stretch;
  stretch.begin = to_nanoseconds(now_);
  if (!stretches_.empty()) {
    const Stretch& last = stretches_.back();
    const std::int64_t steps = (last.end - last.begin) / last.step;
    stretch.steps = last.steps + steps;
    stretch.tokens = last.tokens + steps * last.step_tokens;
  }
  stretch.capacity = settings_.elastic
                         ? static_cast<double>(available_) / static_cast<double>(settings_.slices)
                         : 1;
  stretch.step_tokens = std::llround(stretch.capacity * static_cast<double>(settings_.step_tokens));
  stretch.step = settings_.step;
  waiting_until_.reset();
  double stalled_until = 0;
  while (stalled_until == 0) {
    const Change change = next_change();
    apply(change);
    if (change.time >= kLongest) {
      stalled_until = kLongest;
    } else if (change.kind == Change::Kind::death) {
      stretch.dies = true;
      stalled_until = now_ + 1e-9 * static_cast<double>(change.slices);
    } else if (change.kind == Change::Kind::loss && change.slices > 0) {
      stretch.dies = settings_.elastic && available_ == 0;
      stalled_until = now_ + down;
    } else if (change.kind == Change::Kind::gain && !waiting_until_) {
      waiting_until_ = now_ + restart.up_wait;
    } else if (change.kind == Change::Kind::waited) {
      stalled_until = now_ + up;
    }
  }
  // The last one has no end.
  stretch.end = now_ < kLongest ? to_nanoseconds(now_) : std::numeric_limits<Nanoseconds>::max();
  stretches_.push_back(stretch);
  // What happens during the stall is taken in at its end.
  waiting_until_ = stalled_until;
  while (now_ < kLongest) {
    const Change change = next_change();
    if (change.kind == Change::Kind::death) {
      waiting_until_ = now_ + 1e-9 * static_cast<double>(change.slices);
      stretches_.back().dies = true;
      continue;
    }
    apply(change);
    if (change.kind != Change::Kind::waited) continue;
    if (available_ > 0 || !settings_.elastic || returns_.empty()) break;
    waiting_until_ = returns_.top().time + up;  // nothing is left to train on
  }
}

const Stretch& Site::stretch_after(Nanoseconds time) {
  while (cursor_ > 0 && stretches_[cursor_ - 1].end > time) --cursor_;
  while (true) {
    while (cursor_ < stretches_.size() && stretches_[cursor_].end <= time) ++cursor_;
    if (cursor_ < stretches_.size()) return stretches_[cursor_];
    extend();
  }
}

std::optional<Boundary> Site::boundary_after(Nanoseconds time) {
  // A stretch may end before the step that `time` lies in does.
  while (true) {
    const Stretch& stretch = stretch_after(time);
    const Nanoseconds into = std::max<Nanoseconds>(time - stretch.begin, 0);
    const std::int64_t steps = into / stretch.step + 1;
    const Nanoseconds end = stretch.begin + steps * stretch.step;
    if (end <= stretch.end) {
      return Boundary{end, stretch.steps + steps, stretch.tokens + steps * stretch.step_tokens};
    }
    if (stretch.dies) return std::nullopt;
    time = stretch.end;
  }
}

Boundary Site::done_by(Nanoseconds time) {
  const Stretch& stretch = stretch_after(time);
  const std::int64_t steps = std::max<Nanoseconds>(time - stretch.begin, 0) / stretch.step;
  return {time, stretch.steps + steps, stretch.tokens + steps * stretch.step_tokens};
}

Nanoseconds Site::last_boundary(const Stretch& stretch) const {
  return stretch.begin + (stretch.end - stretch.begin) / stretch.step * stretch.step;
}

Nanoseconds Site::next_death(Nanoseconds time, Nanoseconds limit) {
  constexpr std::int64_t kMany = 64;  // slices that do not all fail at once by chance
  const bool mortal = recorded_ || domain_slices_ > 0 || settings_.slices < kMany;
  while (mortal && time <= limit) {
    const Stretch& stretch = stretch_after(time);
    if (stretch.dies) return stretch.end;
    time = stretch.end;
  }
  return limit + 1;
}

void Site::forget(Nanoseconds time) {
  while (stretches_.size() > 1 && stretches_.front().end <= time && cursor_ > 0) {
    stretches_.pop_front();
    --cursor_;
  }
}

std::int64_t step_tokens_of(const Scenario& scenario, int learners) {
  return std::max<std::int64_t>(std::llround(scenario.train.batch_tokens / learners), 1);
}

std::vector<Site> make_sites(const Scenario& scenario, int learners, int spares, bool elastic,
                             std::uint64_t seed) {
  const auto trace = read_trace(scenario.failure.trace);
  const double chips = scenario.cluster.chips / learners;
  const auto slices = std::max<std::int64_t>(std::llround(chips / scenario.cluster.slice), 1);
  std::vector<Site> sites;
  for (int number = 0; number < learners + spares; ++number) {
    const double place = learners > 1 ? static_cast<double>(number % learners) / (learners - 1) : 0;
    const double step = scenario.train.step_seconds * (1 + scenario.train.spread * place);
    SiteSettings settings;
    settings.number = number;
    settings.first_chip = number * chips;
    settings.slices = slices;
    settings.elastic = elastic;
    settings.step = to_nanoseconds(step);
    settings.step_tokens = step_tokens_of(scenario, learners);
    sites.emplace_back(scenario, settings, trace, seed);
  }
  return sites;
}

}  // namespace archipelago::simulate
