#include "sync/membership.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace archipelago::sync {

Membership::Membership(const Settings& settings, const Restored& restored)
    : settings_(settings),
      places_(settings.learners),
      homes_(settings.learners),
      requested_(settings.spares) {
  const std::size_t known = restored.incarnations.size();
  if (restored.merged_tokens.size() != known * settings.fragments) {
    throw Error(ExitCode::bad_data,
                "the checkpoint's merged tokens do not fit its learners and this run's " +
                    std::to_string(settings.fragments) +
                    " fragments: resume with the options of the run that wrote it");
  }
  for (int learner = 0; learner < std::max<int>(settings.learners, static_cast<int>(known));
       ++learner) {
    add_learner(learner < settings.learners);
    LearnerView& view = views_.back();
    if (learner < static_cast<int>(known)) {
      view.incarnation = restored.incarnations[learner];
      const auto row = restored.merged_tokens.begin() +
                       static_cast<std::ptrdiff_t>(learner) * settings.fragments;
      view.merged_tokens.assign(row, row + settings.fragments);
      lives_.back().counted = view.merged_tokens;
      set_tokens(learner, lasting_tokens(learner));
      view.step = view.tokens / settings.batch_tokens;
    }
    if (learner >= settings.learners) view.state = LearnerState::retired;
  }
}

void Membership::add_learner(bool waits_for_home) {
  LearnerView view;
  view.merged_tokens.assign(settings_.fragments, 0);
  views_.push_back(std::move(view));
  Life life;
  life.waits_for_home = waits_for_home;
  life.counted.assign(settings_.fragments, 0);
  lives_.push_back(std::move(life));
}

Membership::Island& Membership::island_at(int island) {
  if (island >= static_cast<int>(islands_.size())) islands_.resize(island + 1);
  return islands_[island];
}

void Membership::add_island(int island, Nanoseconds now, const std::vector<std::int32_t>& clock,
                            std::vector<Action>& actions) {
  Island& it = island_at(island);
  if (it.state == IslandState::unseen && island >= homes_) requested_ = std::max(requested_ - 1, 0);
  if (it.state != IslandState::unseen && it.state != IslandState::leaving) return;
  if (!frozen_ && island < homes_ && lives_[island].waits_for_home) {
    assign(island, island, now, clock, actions);
    return;
  }
  it.state = IslandState::spare;
  it.learner = -1;
  spares_.insert(std::lower_bound(spares_.begin(), spares_.end(), island), island);
}

std::optional<int> Membership::remove_island(int island) {
  Island& it = island_at(island);
  const Island before = it;
  it = {IslandState::lost, -1, -1};
  if (before.state == IslandState::spare) std::erase(spares_, island);
  if (before.state == IslandState::unseen) {
    if (island < homes_) {
      lives_[island].waits_for_home = false;
    } else {
      requested_ = std::max(requested_ - 1, 0);
    }
  }
  if (before.state == IslandState::playing) return before.learner;
  return std::nullopt;
}

void Membership::lose(int learner) {
  const bool goes_too = lives_[learner].guests_place;
  set_state(learner, goes_too ? LearnerState::retired : LearnerState::lost);
  closed_ += goes_too;
  set_tokens(learner, lasting_tokens(learner));
  views_[learner].island = -1;
  ++losses_;
}

void Membership::find_silent(Nanoseconds now, std::vector<int>& silent,
                             std::vector<int>& expelled) {
  if (!next_check_ || now < *next_check_) return;
  next_check_.reset();
  for (int learner = 0; learner < static_cast<int>(views_.size()); ++learner) {
    const LearnerView& view = views_[learner];
    if (!is_alive(learner)) continue;
    const Nanoseconds silence = now - view.last_report;
    if (silence >= settings_.expel_after) {
      expelled.push_back(learner);
      continue;
    }
    if (view.state != LearnerState::suspect && silence >= settings_.suspect_after) {
      set_state(learner, LearnerState::suspect);
      silent.push_back(learner);
    }
    watch(view.last_report +
          (view.state == LearnerState::suspect ? settings_.expel_after : suspect_after()));
  }
}

void Membership::restart_patience(Nanoseconds now) {
  for (LearnerView& view : views_) view.last_report = now;
}

Nanoseconds Membership::suspect_after() const {
  return std::min(settings_.suspect_after, settings_.expel_after);
}

void Membership::watch(Nanoseconds deadline) {
  if (!next_check_ || deadline < *next_check_) next_check_ = deadline;
}

void Membership::expel(int learner, const std::string& reason, std::vector<Action>& actions) {
  const LearnerView& view = views_[learner];
  island_at(view.island) = {IslandState::leaving, -1, -1};
  actions.push_back(Expel{view.island, learner, view.incarnation, reason});
}

void Membership::scale(int learners, std::vector<int>& retired, std::vector<Action>& actions) {
  places_ = std::max(learners, 1);
  closed_ = 0;
  for (int learner = places_; learner < static_cast<int>(views_.size()); ++learner) {
    LearnerView& view = views_[learner];
    if (is_alive(learner)) {
      actions.push_back(Retire{view.island, learner, view.incarnation});
      island_at(view.island) = {IslandState::leaving, learner, view.incarnation};
      lives_[learner].leaving = true;
      retired.push_back(learner);
    }
    set_state(learner, LearnerState::retired);
    view.island = -1;
    lives_[learner].waits_for_home = false;
  }
  while (static_cast<int>(views_.size()) < places_) add_learner(false);
  for (int learner = 0; learner < static_cast<int>(views_.size()); ++learner) {
    lives_[learner].guests_place = false;
    const bool is_wanted = learner < places_;
    if (is_wanted && views_[learner].state == LearnerState::retired) {
      set_state(learner, LearnerState::vacant);
    }
  }
}

int Membership::next_guest_place() const {
  int place = 0;
  while (place < places_ && views_[place].state != LearnerState::retired) ++place;
  return place;
}

void Membership::make_guest_place(int learner) {
  if (learner < places_) {
    --closed_;
    set_state(learner, LearnerState::lost);
    return;
  }
  places_ = learner + 1;
  if (static_cast<int>(views_.size()) < places_) add_learner(false);
  lives_[learner].guests_place = true;
  set_state(learner, LearnerState::vacant);
}

int Membership::guest_places() const {
  return static_cast<int>(std::ranges::count_if(lives_, &Life::guests_place)) - closed_;
}

std::optional<int> Membership::leaver(int island) const {
  if (island >= static_cast<int>(islands_.size())) return std::nullopt;
  const Island& it = islands_[island];
  if (it.state != IslandState::leaving || it.learner < 0 || !lives_[it.learner].leaving ||
      views_[it.learner].incarnation != it.incarnation) {
    return std::nullopt;
  }
  return it.learner;
}

void Membership::close(int learner) {
  lives_[learner].leaving = false;
  set_tokens(learner, lasting_tokens(learner));
}

bool Membership::is_open(int learner) const {
  const LearnerState state = views_[learner].state;
  return (state == LearnerState::lost || state == LearnerState::vacant) &&
         !lives_[learner].waits_for_home;
}

std::optional<int> Membership::first_open() const {
  for (int learner = 0; learner < places_; ++learner) {
    if (is_open(learner)) return learner;
  }
  return std::nullopt;
}

bool Membership::is_spare(int island) const {
  return std::binary_search(spares_.begin(), spares_.end(), island);
}

bool Membership::has_open_place() const { return first_open().has_value(); }

void Membership::place(int island, Nanoseconds now, const std::vector<std::int32_t>& clock,
                       std::vector<Action>& actions) {
  const auto learner = first_open();
  if (frozen_ || !learner || std::erase(spares_, island) == 0) return;
  assign(*learner, island, now, clock, actions);
}

void Membership::fill(Nanoseconds now, const std::vector<std::int32_t>& clock,
                      std::vector<Action>& actions) {
  if (frozen_) return;
  int unfilled = 0;
  for (int learner = 0; learner < places_; ++learner) {
    if (!is_open(learner)) continue;
    if (spares_.empty()) {
      ++unfilled;
      continue;
    }
    const int island = spares_.front();
    spares_.erase(spares_.begin());
    assign(learner, island, now, clock, actions);
  }
  const int coming = static_cast<int>(spares_.size()) + requested_;
  const int lacking = settings_.spares + unfilled - coming;
  if (lacking > 0) {
    requested_ += lacking;
    actions.push_back(Refill{lacking});
  }
}

void Membership::assign(int learner, int island, Nanoseconds now,
                        const std::vector<std::int32_t>& clock, std::vector<Action>& actions) {
  island_at(island) = {IslandState::playing, learner, -1};
  Life& life = lives_[learner];
  life.rejoining = views_[learner].state == LearnerState::lost;
  life.waits_for_home = false;
  life.joined = false;
  life.reported = false;
  life.target = clock;
  set_state(learner, LearnerState::joining);
  life.leaving = false;
  LearnerView& view = views_[learner];
  const std::int64_t lasting = lasting_tokens(learner);
  life.settled = lasting;
  set_tokens(learner, lasting);
  std::fill(view.merged_tokens.begin(), view.merged_tokens.end(), lasting);
  view.island = island;
  ++view.incarnation;
  view.step = view.tokens / settings_.batch_tokens;
  view.diverged = false;
  view.diverged_steps = 0;
  view.step_seconds = 0;
  view.last_report = now;
  view.held.clear();
  watch(now + suspect_after());
  actions.push_back(Assign{island, learner, view.incarnation, view.tokens});
  actions.push_back(Refresh{learner, view.incarnation});
}

std::int64_t Membership::lasting_tokens(int learner) const {
  const auto& merged = views_[learner].merged_tokens;
  const std::int64_t sum = std::accumulate(merged.begin(), merged.end(), std::int64_t{0});
  const std::int64_t mean = sum / settings_.fragments;
  // Of a learner with a batch of its own the two may not be multiples of the same.
  return std::max(mean - mean % settings_.batch_tokens, lives_[learner].settled);
}

void Membership::set_tokens(int learner, std::int64_t tokens) {
  total_tokens_ += tokens - views_[learner].tokens;
  views_[learner].tokens = tokens;
}

void Membership::set_state(int learner, LearnerState state) {
  LearnerState& current = views_[learner].state;
  active_ += (state == LearnerState::active) - (current == LearnerState::active);
  if (current != state) step_seconds_stale_ = true;
  current = state;
}

bool Membership::is_alive(int learner) const { return sync::is_alive(views_[learner].state); }

bool Membership::is_current(int learner, int incarnation) const {
  return learner >= 0 && learner < static_cast<int>(views_.size()) &&
         views_[learner].incarnation == incarnation && is_alive(learner);
}

bool Membership::is_last_life(int learner, int incarnation) const {
  return is_current(learner, incarnation) ||
         (learner >= 0 && learner < static_cast<int>(views_.size()) &&
          views_[learner].incarnation == incarnation && lives_[learner].leaving);
}

bool Membership::hear(int learner, int incarnation, Nanoseconds now, const Report* report) {
  if (!is_current(learner, incarnation)) return false;
  views_[learner].last_report = now;
  if (report != nullptr) take_report(learner, *report);
  Life& life = lives_[learner];
  const LearnerState before = views_[learner].state;
  if (before == LearnerState::suspect) watch(now + suspect_after());
  if (!life.joined) {
    const bool holds_all =
        report != nullptr && report->held.size() == life.target.size() &&
        std::equal(life.target.begin(), life.target.end(), report->held.begin(),
                   [](std::int32_t target, std::int32_t held) { return held >= target; });
    if (!holds_all) {
      if (before == LearnerState::suspect) set_state(learner, LearnerState::joining);
      return false;
    }
    life.joined = true;
    rejoins_ += life.rejoining;
  }
  set_state(learner, LearnerState::active);
  return before != LearnerState::active;
}

void Membership::take_report(int learner, const Report& report) {
  LearnerView& view = views_[learner];
  Life& life = lives_[learner];
  if (life.reported && report.step < view.step) return;  // overtaken by a later one
  life.reported = true;
  view.diverged = report.step_seconds != 0 && settings_.has_diverged(report.loss);
  const std::int64_t steps = report.step - view.step;
  view.diverged_steps =
      std::max<std::int64_t>(view.diverged_steps + (view.diverged ? steps : -steps), 0);
  view.step = report.step;
  set_tokens(learner, std::max(report.tokens, life.settled));
  if (std::isfinite(report.step_seconds) && report.step_seconds != view.step_seconds) {
    view.step_seconds = report.step_seconds;
    step_seconds_stale_ = true;
  }
  view.loss = report.loss;
  view.held = report.held;
}

bool Membership::all_alive_count() const {
  return std::none_of(views_.begin(), views_.end(), [](const LearnerView& view) {
    return view.state == LearnerState::joining || view.state == LearnerState::suspect;
  });
}

bool Membership::all_diverged() const {
  return active_ > 0 && std::all_of(views_.begin(), views_.end(), [](const LearnerView& view) {
           return view.state != LearnerState::active || view.diverged;
         });
}

bool Membership::all_diverged_for(std::int64_t steps) const {
  return active_ > 0 && std::all_of(views_.begin(), views_.end(), [&](const LearnerView& view) {
           return view.state != LearnerState::active || view.diverged_steps >= steps;
         });
}

void Membership::credit(int learner, int fragment, std::int64_t at_tokens, std::int64_t tokens) {
  std::int64_t& counted = lives_[learner].counted[fragment];
  merged_work_ += std::max<std::int64_t>(at_tokens - std::max(at_tokens - tokens, counted), 0);
  counted = std::max(counted, at_tokens);
  std::int64_t& merged = views_[learner].merged_tokens[fragment];
  merged = std::max(merged, at_tokens);
}

void Membership::settle(int learner, std::int64_t tokens) {
  for (std::int64_t& merged : views_[learner].merged_tokens) merged = std::max(merged, tokens);
  lives_[learner].settled = tokens;
  set_tokens(learner, std::max(views_[learner].tokens, tokens));
}

void Membership::settle_living() {
  for (int learner = 0; learner < static_cast<int>(views_.size()); ++learner) {
    if (is_alive(learner)) settle(learner, views_[learner].tokens);
  }
}

double Membership::step_seconds() {
  if (!step_seconds_stale_) return step_seconds_;
  step_seconds_stale_ = false;
  scratch_.clear();
  for (const LearnerView& view : views_) {
    if (view.state == LearnerState::active && view.step_seconds > 0) {
      scratch_.push_back(view.step_seconds);
    }
  }
  if (scratch_.empty()) return step_seconds_;
  const auto middle = scratch_.begin() + static_cast<std::ptrdiff_t>(scratch_.size() / 2);
  std::nth_element(scratch_.begin(), middle, scratch_.end());
  step_seconds_ = *middle;
  if (scratch_.size() % 2 == 0) {
    step_seconds_ = (step_seconds_ + *std::max_element(scratch_.begin(), middle)) / 2;
  }
  return step_seconds_;
}

}  // namespace archipelago::sync
