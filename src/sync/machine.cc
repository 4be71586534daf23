#include "sync/machine.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "sync/checked_settings.h"

namespace archipelago::sync {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kLongestSeconds = 1e9;     // keeps times of broken reports within Nanoseconds
constexpr double kShortestPatience = 1;     // seconds until an Ask is repeated, ...
constexpr double kPatienceExchanges = 4;    // ... and in times that an exchange may take
constexpr double kMergeSecondsShare = 0.2;  // weight of the newest value in the running mean

// The run has diverged when every learner has for so long: as many steps as refreshing them takes.
constexpr double kDivergenceIntervals = 3;
constexpr double kShortestDivergence = 10;  // steps
constexpr const char* kDiverged =
    "every learner's loss or gradients are not finite, or its loss is far above that of guessing";
constexpr const char* kComplete = "all tokens are trained";

Nanoseconds to_nanoseconds(double seconds) {
  return std::llround(std::min(seconds, kLongestSeconds) * kNanosecondsPerSecond);
}

std::vector<std::int32_t> initial_versions(const Settings& settings, const Restored& restored) {
  if (restored.versions.empty()) return std::vector<std::int32_t>(settings.fragments, 0);
  if (restored.versions.size() == static_cast<std::size_t>(settings.fragments)) {
    return restored.versions;
  }
  throw Error(ExitCode::bad_data,
              "the checkpoint's clock has " + std::to_string(restored.versions.size()) +
                  " fragments, this run has " + std::to_string(settings.fragments) +
                  ": resume with the options of the run that wrote it");
}

}  // namespace

Machine::Machine(const Settings& settings, const Restored& restored)
    : settings_(checked(settings)),
      membership_(settings, restored),
      leases_(Leases::of_all_groups(settings, restored, membership_)),
      rounds_(settings),
      versions_(initial_versions(settings, restored)),
      last_opened_(restored.round),
      rounds_closed_(restored.round),
      rounds_saved_(restored.round) {}

void Machine::handle(Nanoseconds now, const Event& event, std::vector<Action>& actions) {
  if (phase_ == Phase::finished) return;
  now_ = std::max(now_, now);
  std::visit([&](const auto& happened) { on(happened, actions); }, event);
  if (phase_ == Phase::running && settings_.token_budget > 0 &&
      membership_.total_tokens() >= settings_.token_budget) {
    start_draining(actions);
  }
  save_if_due(actions);  // where it was held back while nobody was sound
  close_rounds(std::holds_alternative<Tick>(event), actions);
  open_rounds(actions);
  if (std::holds_alternative<Tick>(event)) ask_again(actions);
  finish_if_over(actions);
}

void Machine::on(const IslandReady& event, std::vector<Action>& actions) {
  if (const auto leaver = membership_.leaver(event.island)) see_off(*leaver, actions);
  membership_.add_island(event.island, now_, versions_, actions);
  fill(actions);
}

void Machine::on(const GuestReady& event, std::vector<Action>& actions) {
  if (membership_.leaver(event.island)) return on(IslandReady{event.island}, actions);
  membership_.add_island(event.island, now_, versions_, actions);
  const bool may_grow = membership_.is_spare(event.island) && phase_ == Phase::running &&
                        membership_.wanted() < most_learners();
  if (may_grow && !membership_.has_open_place()) {
    const int place = membership_.next_guest_place();
    if (membership_.is_leaving(place)) see_off(place, actions);
    membership_.make_guest_place(place);
  }
  membership_.place(event.island, now_, versions_, actions);
  fill(actions);
}

void Machine::on(const IslandLost& event, std::vector<Action>& actions) {
  if (const auto leaver = membership_.leaver(event.island)) see_off(*leaver, actions);
  const std::optional<int> learner = membership_.remove_island(event.island);
  if (learner) lose(*learner, actions);
  fill(actions);
}

// Spares take the places that are open, then data shards go to whom they shall.
void Machine::fill(std::vector<Action>& actions) {
  membership_.fill(now_, versions_, actions);
  balance_leases(actions);
}

void Machine::balance_leases(std::vector<Action>& actions) {
  if (phase_ != Phase::running) return;
  for (Leases& leases : leases_) leases.balance(membership_, actions);
}

// The learner's count has been set back to where its next life goes on: its data too.
void Machine::rewind_leases(int learner) {
  for (Leases& leases : leases_) leases.rewind(learner, membership_.views()[learner].tokens);
}

std::vector<std::int64_t> Machine::shard_cursors() const {
  std::vector<std::int64_t> all;
  for (const Leases& leases : leases_) {
    const auto cursors = leases.cursors(membership_);
    all.insert(all.end(), cursors.begin(), cursors.end());
  }
  return all;
}

int Machine::shards_for(int learner) const {
  return leases_.empty() ? 0 : leases_[Leases::group_of(settings_, learner)].shards();
}

int Machine::most_learners() const {
  int others = 0;  // that train on data of their own
  for (const int group : settings_.groups) others += group != 0;
  return others + shards_for(static_cast<int>(settings_.groups.size()));
}

void Machine::on(const Report& event, std::vector<Action>& actions) {
  if (membership_.hear(event.learner, event.incarnation, now_, &event)) {
    welcome(event.learner, actions);
  }
  const double patience = std::max(kShortestDivergence, kDivergenceIntervals * settings_.interval);
  // The first sound learner answers the first question.
  if (phase_ == Phase::running &&
      membership_.all_diverged_for(static_cast<std::int64_t>(patience)) &&
      membership_.all_alive_count()) {
    stop(Outcome::diverged, kDiverged);
  }
}

void Machine::on(const LeaseFollowed& event, std::vector<Action>& actions) {
  if (leases_.empty() || !membership_.is_last_life(event.learner, event.incarnation) ||
      !leases_[Leases::group_of(settings_, event.learner)].follow(event)) {
    return;
  }
  membership_.settle(event.learner, event.tokens);
  balance_leases(actions);
}

void Machine::on(const Delivery& event, std::vector<Action>& actions) {
  const auto discard = [&](const std::string& reason) {
    actions.push_back(
        Discard{event.learner, event.incarnation, event.round, event.fragment, reason});
  };
  if (!membership_.is_last_life(event.learner, event.incarnation)) {
    discard("stale incarnation");
    return;
  }
  const bool returned = membership_.hear(event.learner, event.incarnation, now_, nullptr);
  const bool fragment_exists = event.fragment >= 0 && event.fragment < settings_.fragments;
  const std::string refusal =
      rounds_.take(event, fragment_exists ? versions_[event.fragment] : 0, last_opened_);
  if (!refusal.empty()) {
    discard(refusal);
    if (Rounds::is_unsound(refusal)) {
      refresh(event.learner, event.incarnation, event.round, actions);
    }
  }
  if (returned) welcome(event.learner, actions);
}

void Machine::on(const Merged& event, std::vector<Action>& actions) {
  Round* round = rounds_.find(event.round);
  if (round == nullptr || !round->merging) return;
  const int fragment = round->fragment;
  ++versions_[fragment];
  for (int learner = 0; learner < static_cast<int>(round->answers.size()); ++learner) {
    const Answer& answer = round->answers[learner];
    if (answer.state == Answer::State::delivered && answer.weight > 0 &&
        membership_.is_last_life(learner, answer.incarnation)) {
      membership_.credit(learner, fragment, answer.at_tokens, answer.tokens);
    }
  }
  if (std::isfinite(event.seconds) && event.seconds >= 0) {
    merge_seconds_ = merge_seconds_
                         ? *merge_seconds_ + kMergeSecondsShare * (event.seconds - *merge_seconds_)
                         : event.seconds;
  }
  rounds_.remember(*round);
  rounds_.remove(*round);
  actions.push_back(Publish{event.round, fragment, versions_[fragment]});
  count_closed(actions);
}

void Machine::on(const Tick&, std::vector<Action>& actions) {
  silent_.clear();
  expelled_.clear();
  membership_.find_silent(now_, silent_, expelled_);
  for (const int learner : silent_) rounds_.excuse(learner);
  for (const int learner : expelled_) {
    membership_.expel(learner, "no report for too long", actions);
    lose(learner, actions);
  }
  if (!expelled_.empty()) fill(actions);
}

void Machine::ask_again(std::vector<Action>& actions) {
  for (Round& round : rounds_.all()) {
    const auto limit = repetition(round);
    if (!limit || now_ < *limit) continue;
    rounds_.ask_again(round, actions);
    round.next_ask = now_ + ask_patience();
  }
}

// When a round that lacks its quorum asks again.
std::optional<Nanoseconds> Machine::repetition(const Round& round) const {
  if (phase_ == Phase::stopping || round.merging || round.waiting == 0 ||
      round.delivered >= quorum()) {
    return std::nullopt;
  }
  return round.next_ask;
}

Nanoseconds Machine::ask_patience() const {
  return to_nanoseconds(
      std::max(kShortestPatience, kPatienceExchanges * settings_.overlap * step_seconds_));
}

void Machine::on(const StopRequested& event, std::vector<Action>&) {
  stop(Outcome::stopped, event.reason);
}

void Machine::on(const NobodyLeft& event, std::vector<Action>&) {
  stop(Outcome::no_learners, event.reason);
}

void Machine::stop(Outcome outcome, const std::string& reason) {
  if (phase_ == Phase::stopping) return;
  phase_ = Phase::stopping;
  stop_outcome_ = outcome;
  stop_reason_ = reason;
  membership_.freeze();
  const Nanoseconds patience = to_nanoseconds(settings_.overlap * step_seconds_);
  stop_deadline_ = now_ + std::min(patience, settings_.grace_cap);
}

void Machine::on(const ScaleRequested& event, std::vector<Action>& actions) {
  // A retired learner's last contributions count until its island has left or its id is taken up.
  for (int learner = 0; learner < event.learners; ++learner) {
    if (membership_.is_leaving(learner)) see_off(learner, actions);
  }
  silent_.clear();
  membership_.scale(event.learners, silent_, actions);
  for (const int learner : silent_) rounds_.excuse(learner);
  fill(actions);
}

// A retired learner's last life is over for good.
void Machine::see_off(int learner, std::vector<Action>& actions) {
  rounds_.drop_life(learner, membership_.views()[learner].incarnation, actions);
  membership_.close(learner);
  rewind_leases(learner);
}

void Machine::on(const SyncerReplaced&, std::vector<Action>& actions) {
  membership_.restart_patience(now_);
  for (Round& round : rounds_.all()) rounds_.restart(round, now_, membership_.views(), actions);
}

void Machine::lose(int learner, std::vector<Action>& actions) {
  rounds_.drop_life(learner, membership_.views()[learner].incarnation, actions);
  membership_.lose(learner);
  rewind_leases(learner);
}

void Machine::welcome(int learner, std::vector<Action>& actions) {
  if (phase_ == Phase::stopping) return;
  for (Round& round : rounds_.all()) {
    if (round.merging || round.delivered >= quorum()) continue;
    rounds_.invite(round, learner, membership_.views()[learner].incarnation, actions);
  }
}

void Machine::start_draining(std::vector<Action>& actions) {
  phase_ = Phase::draining;
  membership_.freeze();
  last_drained_ = last_opened_ + settings_.fragments;
  actions.push_back(Pause{});
}

// K, or as many as there can be: no one joins any more while the last rounds are held.
int Machine::quorum() const {
  const int present = phase_ == Phase::draining ? membership_.active() : membership_.wanted();
  return std::max(1, std::min(settings_.quorum, present));
}

void Machine::close_rounds(bool deadlines, std::vector<Action>& actions) {
  for (std::size_t i = 0; i < rounds_.all().size();) {
    if (save_is_due() && rounds_.merging() > 0) return;  // a checkpoint waits for the merges
    Round& round = rounds_.all()[i];
    if (round.merging || !is_due(round, deadlines, actions)) {
      ++i;
    } else if (phase_ == Phase::stopping && round.delivered < quorum()) {
      rounds_.abandon(round, "stopping", actions);
    } else if (rounds_.start_merge(round, actions)) {
      ++i;
    } else {
      count_closed(actions);
    }
  }
}

// Whether the round waits for nobody any more; refuses what is unsound then.
bool Machine::is_due(Round& round, bool deadlines, std::vector<Action>& actions) {
  update_grace(round);
  const std::optional<Nanoseconds> limit = deadlines ? deadline(round) : std::nullopt;
  if (round.waiting > 0 && !(limit && now_ >= *limit)) return false;
  for (const auto& [learner, reason] : rounds_.refuse_unsound(round, membership_.views())) {
    const int incarnation = round.answers[learner].incarnation;
    actions.push_back(Discard{learner, incarnation, round.number, round.fragment, reason});
    refresh(learner, incarnation, round.number, actions);
  }
  if (phase_ == Phase::stopping || round.delivered >= quorum()) return true;
  update_grace(round);
  if (round.waiting > 0) return false;
  // No one else is asked while draining, nor again of those who were refused.
  return phase_ == Phase::draining || round.delivered + round.refused >= quorum();
}

// What the learner sent for rounds up to its last Refresh was copied before it could take that in;
// and one that is unsound again so soon is not to fill the link.
void Machine::refresh(int learner, int incarnation, std::int64_t round,
                      std::vector<Action>& actions) {
  if (!membership_.is_current(learner, incarnation)) return;
  if (learner >= static_cast<int>(refreshed_.size())) refreshed_.resize(learner + 1, 0);
  if (round <= refreshed_[learner]) return;
  refreshed_[learner] = last_opened_ + settings_.fragments - 1;
  actions.push_back(Refresh{learner, incarnation});
}

// The grace window starts with the quorum, and ends when the quorum is lost.
void Machine::update_grace(Round& round) {
  if (round.delivered < quorum()) {
    round.grace_end.reset();
    return;
  }
  if (round.grace_end) return;
  const double quorum_seconds = static_cast<double>(now_ - round.opened) / kNanosecondsPerSecond;
  const double slack =
      settings_.overlap * step_seconds_ - quorum_seconds - merge_seconds_.value_or(0);
  const double longest = static_cast<double>(settings_.grace_cap) / kNanosecondsPerSecond;
  round.grace_end = now_ + to_nanoseconds(std::clamp(settings_.grace * slack, 0.0, longest));
}

std::optional<Nanoseconds> Machine::deadline(const Round& round) const {
  if (!stop_deadline_ || !round.grace_end) return stop_deadline_ ? stop_deadline_ : round.grace_end;
  return std::min(*stop_deadline_, *round.grace_end);
}

void Machine::count_closed(std::vector<Action>& actions) {
  ++rounds_closed_;
  save_if_due(actions);
}

bool Machine::save_is_due() const {
  const std::int64_t rounds = rounds_closed_ - rounds_saved_;
  const bool waits_long = settings_.checkpoint_after > 0 && rounds > 0 &&
                          now_ - saved_at_ >= settings_.checkpoint_after;
  return rounds >= settings_.checkpoint_rounds || waits_long;
}

void Machine::save_if_due(std::vector<Action>& actions) {
  if (!save_is_due() || rounds_.merging() > 0 || membership_.all_diverged()) return;
  rounds_saved_ = rounds_closed_;
  saved_at_ = now_;
  actions.push_back(SaveGlobal{rounds_closed_});
}

bool Machine::has_room_for_round() const {
  if (phase_ == Phase::draining && last_opened_ >= last_drained_) return false;
  if (phase_ != Phase::running && phase_ != Phase::draining) return false;
  return membership_.active() > 0 &&
         static_cast<int>(rounds_.all().size()) < settings_.max_open_rounds &&
         !rounds_.holds_fragment(static_cast<int>(last_opened_ % settings_.fragments));
}

// When a round that has room may open. Requires a known xi, except while draining.
Nanoseconds Machine::next_opening() const {
  if (phase_ == Phase::draining || !last_opening_) return now_;
  return *last_opening_ + to_nanoseconds(settings_.interval * step_seconds_ / settings_.fragments);
}

void Machine::open_rounds(std::vector<Action>& actions) {
  step_seconds_ = membership_.step_seconds();
  while (has_room_for_round() && (phase_ == Phase::draining || step_seconds_ > 0) &&
         now_ >= next_opening()) {
    const auto& learners = membership_.views();
    const int fragment = static_cast<int>(last_opened_ % settings_.fragments);
    ++last_opened_;
    last_opening_ = now_;
    Round& round = rounds_.open(last_opened_, fragment, now_, static_cast<int>(learners.size()));
    round.next_ask = now_ + ask_patience();
    for (int learner = 0; learner < static_cast<int>(learners.size()); ++learner) {
      if (learners[learner].state == LearnerState::active) {
        rounds_.ask(round, learner, learners[learner].incarnation, actions);
      }
    }
  }
}

void Machine::finish_if_over(std::vector<Action>& actions) {
  if (phase_ == Phase::running || !rounds_.all().empty() || has_room_for_round()) return;
  const bool suspects =
      std::any_of(learners().begin(), learners().end(),
                  [](const LearnerView& view) { return view.state == LearnerState::suspect; });
  if (phase_ == Phase::draining && last_opened_ < last_drained_ && suspects) return;
  const bool complete = phase_ == Phase::draining;
  if (complete) membership_.settle_living();
  const Finish finish = !complete                    ? Finish{stop_outcome_, stop_reason_}
                        : membership_.all_diverged() ? Finish{Outcome::diverged, kDiverged}
                                                     : Finish{Outcome::complete, kComplete};
  // A run that fails again and again must not look as if it went on.
  const bool goes_on = complete || finish.outcome == Outcome::stopped;
  const bool sound = finish.outcome != Outcome::diverged && !membership_.all_diverged();
  if (sound && (goes_on || rounds_closed_ > rounds_saved_)) {
    actions.push_back(SaveGlobal{rounds_closed_});
  }
  actions.push_back(finish);
  phase_ = Phase::finished;
}

std::optional<Nanoseconds> Machine::next_wakeup() const {
  if (phase_ == Phase::finished) return std::nullopt;
  std::optional<Nanoseconds> earliest = membership_.next_check();
  const auto consider = [&](Nanoseconds time) {
    if (!earliest || time < *earliest) earliest = time;
  };
  if (has_room_for_round() && (phase_ == Phase::draining || step_seconds_ > 0)) {
    consider(next_opening());
  }
  const bool held_back = save_is_due() && rounds_.merging() > 0;
  for (const Round& round : rounds_.all()) {
    if (round.merging || held_back) continue;
    if (const std::optional<Nanoseconds> limit = deadline(round)) consider(*limit);
    if (const std::optional<Nanoseconds> limit = repetition(round)) consider(*limit);
  }
  return earliest;
}

}  // namespace archipelago::sync
