#include "simulate/site.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/error.h"
#include "core/readable.h"

namespace archipelago::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLongest = 4.6e9;  // seconds; Nanoseconds hold the sum of two

}  // namespace

Nanoseconds to_nanoseconds(double seconds) {
  return std::llround(std::min(seconds, kLongest) * 1e9);
}

std::vector<TracedFailure> read_trace(const std::string& path, double chips) {
  std::vector<TracedFailure> trace;
  if (path.empty()) return trace;
  auto file = open_to_read(path);
  if (!file) throw Error(ExitCode::configuration, "failure.trace: there is no file " + path);
  std::array<char, 4096> text{};
  for (int number = 1; !file->eof(); ++number) {
    const auto refuse = [&](const std::string& problem) {
      throw Error(ExitCode::bad_data, path + ":" + std::to_string(number) + ": " + problem);
    };
    file->getline(text.data(), std::ssize(text));
    if (file->fail() && !file->eof()) refuse("a line that is no failure's: it is too long");
    std::string line = text.data();
    if (line.empty() || line.front() == '#' || line.starts_with("time_s")) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    TracedFailure failure{};
    if (!(fields >> failure.time >> failure.chip >> failure.back) || failure.time < 0 ||
        (!trace.empty() && failure.time < trace.back().time)) {
      refuse("expected time_s,chip,return_s with ascending times");
    }
    if (failure.back < 0)
      refuse("return_s is the time from the failure until the chip is back, at least 0");
    if (failure.chip < 0 || failure.chip >= chips) {
      std::ostringstream problem;
      problem << "there is no chip " << failure.chip << ": learners and spares have " << chips
              << ", counted from 0";
      refuse(problem.str());
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
      next_failure_(kNever),
      next_spot_(kNever),
      available_(settings.slices) {
  random_ = Random(random_.next());
  for (const TracedFailure& failure : trace) {
    if (failure.chip >= settings.first_chip && failure.chip < settings.first_chip + chips()) {
      trace_.push_back(failure);
    }
  }
  if (scenario.failure.shape != 1 && scenario.failure.trace.empty()) {
    const double age = scenario.failure.age_hours * 3600 / settings_.life.scale();
    ages_ = Ages{chips(), 0, age > 0 ? portable_power(age, scenario.failure.shape) : 0, {}};
    plan_first_of_ages();
  }
  add_domain(scenario.host, seed ^ 0xA057ULL);
  add_domain(scenario.rack, seed ^ 0x3ACCULL);
  add_domain(scenario.region, seed ^ 0xD0A1ULL);
  plan_failure(0);
  plan_spot(0);
}

double Site::chips() const {
  return static_cast<double>(settings_.slices) * scenario_.cluster.slice;
}

double Site::until(double mean) { return Duration(mean, 1, 1).sample(random_); }

void Site::add_domain(const Domain& domain, std::uint64_t seed) {
  if (domain.size == 0) return;
  const auto slices =
      std::max<std::int64_t>(std::llround(domain.size / scenario_.cluster.slice), 1);
  const bool holds_site = domain.size >= chips();
  const auto number = static_cast<std::uint64_t>(settings_.first_chip / domain.size);
  const Random random = holds_site ? Random(mix_bits(seed) + number) : Random(random_.next());
  plan_domain(domains_.emplace_back(DomainState{domain, slices, holds_site, random, kNever}), 0);
}

void Site::plan_domain(DomainState& state, double now) {
  const double domains = state.holds_site ? 1 : chips() / state.domain.size;
  const double mean = state.domain.mtbf_hours * 3600 / domains;
  state.next = now + Duration(mean, 1, 1).sample(state.random);
}

void Site::plan_failure(double now) {
  if (!scenario_.failure.trace.empty()) {
    next_failure_ = traced_ < trace_.size() ? trace_[traced_].time : kNever;
  } else if (ages_) {
    next_failure_ = ages_->renewed.empty() ? ages_->next_first
                                           : std::min(ages_->next_first, ages_->renewed.top());
  } else {
    next_failure_ = now + until(scenario_.failure.mtbf_hours * 3600 / chips());
  }
}

// The least of n lives is where their common cumulative hazard has grown by an exponential of mean
// 1 / n; that of a Weibull is (t / scale)^shape.
void Site::plan_first_of_ages() {
  if (ages_->untouched < 1) {
    ages_->next_first = kNever;
    return;
  }
  ages_->hazard += until(1 / ages_->untouched);
  ages_->next_first =
      settings_.life.scale() * portable_power(ages_->hazard, 1 / scenario_.failure.shape) -
      scenario_.failure.age_hours * 3600;
}

void Site::plan_spot(double now) {
  const double spot = scenario_.failure.spot_share * static_cast<double>(settings_.slices);
  if (spot == 0) return;
  // Those that are away are not taken again: thinned in lose_slice().
  next_spot_ = now + until(scenario_.failure.spot_hours * 3600 / spot);
}

// The next thing that happens after now_; a failure also plans its return.
Site::Change Site::next_change() {
  const double back = returns_.empty() ? kNever : returns_.top().time;
  const double waited = waiting_until_.value_or(kNever);
  double first = std::min({next_failure_, next_spot_, back, waited});
  DomainState* failing = nullptr;
  for (DomainState& state : domains_) {
    if (state.next >= first) continue;
    first = state.next;
    failing = &state;
  }
  if (failing != nullptr) return lose_domain(*failing);
  if (first == waited) return {Change::Kind::waited, first, 0};
  if (first == back) {
    const Return top = returns_.top();
    returns_.pop();
    return {Change::Kind::gain, first, top.slices};
  }
  return lose_slice(first, first != next_failure_);
}

Site::Change Site::lose_domain(DomainState& state) {
  const double time = state.next;
  const double back = time + Duration(state.domain.return_seconds, 1, 1).sample(state.random);
  plan_domain(state, state.holds_site ? back : time);
  if (state.holds_site) return {Change::Kind::death, time, 0, back};
  const std::int64_t lost = std::min(state.slices, available_);
  if (lost > 0) returns_.push({back, lost});
  return {Change::Kind::loss, time, lost};
}

// `spot`: the slice is taken, not broken.
Site::Change Site::lose_slice(double time, bool spot) {
  double until_back = 0;
  if (spot) {
    until_back = until(scenario_.failure.spot_return_hours * 3600);
    plan_spot(time);
  } else if (!scenario_.failure.trace.empty()) {
    until_back = trace_[traced_++].back;
    plan_failure(time);
  } else {
    until_back = settings_.back.sample(random_);
    if (ages_) {
      if (time == ages_->next_first) {
        ages_->untouched -= 1;
        plan_first_of_ages();
      } else {
        ages_->renewed.pop();
      }
      ages_->renewed.push(time + until_back + settings_.life.sample(random_));
    }
    plan_failure(time);
  }
  // A slice that is away cannot fail.
  const bool hits = random_.below(static_cast<std::uint64_t>(settings_.slices)) <
                    static_cast<std::uint64_t>(available_);
  if (hits) returns_.push({time + until_back, 1});
  return {Change::Kind::loss, time, hits ? 1 : 0};
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
    stretch.steps = last.steps + last.done();
    stretch.tokens = last.tokens + last.done() * last.step_tokens;
  }
  stretch.capacity = settings_.elastic
                         ? static_cast<double>(available_) / static_cast<double>(settings_.slices)
                         : 1;
  stretch.step_tokens = std::llround(stretch.capacity * static_cast<double>(settings_.step_tokens));
  stretch.step = settings_.step;
  waiting_until_.reset();
  double stalled_until = 0;
  bool failed = false;
  while (stalled_until == 0) {
    const Change change = next_change();
    apply(change);
    if (change.time >= kLongest) {
      stalled_until = kLongest;
    } else if (change.kind == Change::Kind::death) {
      stretch.dies = failed = true;
      stalled_until = change.back;
    } else if (change.kind == Change::Kind::loss && change.slices > 0) {
      failed = true;
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
  if (failed && !settings_.elastic && scenario_.checkpoint.every > 0) {
    const std::int64_t apart = std::max<std::int64_t>(
        to_nanoseconds(scenario_.checkpoint.every + scenario_.checkpoint.seconds) / stretch.step,
        1);
    stretch.undone = stretch.done() % apart;
  }
  stretches_.push_back(stretch);
  // What happens during the stall is taken in at its end.
  waiting_until_ = stalled_until;
  while (now_ < kLongest) {
    const Change change = next_change();
    if (change.kind == Change::Kind::death) {
      now_ = change.time;
      waiting_until_ = std::max(waiting_until_.value_or(0), change.back);
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
  const bool mortal = settings_.slices < kMany ||
                      std::any_of(domains_.begin(), domains_.end(), [&](const DomainState& state) {
                        return settings_.slices < kMany * state.slices;
                      });
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

double step_seconds_of(const Scenario& scenario, double place) {
  const Checkpoint& checkpoint = scenario.checkpoint;
  const double writing = checkpoint.every > 0 ? checkpoint.seconds / checkpoint.every : 0;
  return scenario.train.step_seconds * (1 + scenario.train.spread * place) * (1 + writing);
}

std::int64_t step_tokens_of(const Scenario& scenario, int learners) {
  return std::max<std::int64_t>(std::llround(scenario.train.batch_tokens / learners), 1);
}

SiteLink site_link(const Scenario& scenario, int learner) {
  const LinkSpeed speed = link_of(scenario, learner, static_cast<int>(scenario.sync.learners));
  const double bits = scenario.model.parameters * scenario.model.bits /
                      static_cast<double>(scenario.sync.fragments);
  return {to_nanoseconds(speed.latency),
          speed.gbps > 0 ? to_nanoseconds(bits / (speed.gbps * 1e9)) : 0};
}

std::vector<Site> make_sites(const Scenario& scenario, int learners, int spares, bool elastic,
                             std::uint64_t seed) {
  const double chips = scenario.cluster.chips / learners;
  const auto trace = read_trace(scenario.failure.trace, chips * (learners + spares));
  const auto slices = std::max<std::int64_t>(std::llround(chips / scenario.cluster.slice), 1);
  const Failure& failure = scenario.failure;
  const Duration life(failure.mtbf_hours * 3600, failure.shape, 1);
  const Duration back(failure.return_seconds, failure.return_shape, failure.return_power);
  std::vector<Site> sites;
  for (int number = 0; number < learners + spares; ++number) {
    const double place = learners > 1 ? static_cast<double>(number % learners) / (learners - 1) : 0;
    const double step = step_seconds_of(scenario, place);
    SiteSettings settings;
    settings.number = number;
    settings.first_chip = number * chips;
    settings.slices = slices;
    settings.elastic = elastic;
    settings.step = to_nanoseconds(step);
    settings.step_tokens = step_tokens_of(scenario, learners);
    settings.life = life;
    settings.back = back;
    sites.emplace_back(scenario, settings, trace, seed);
  }
  return sites;
}

}  // namespace archipelago::simulate
