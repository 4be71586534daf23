#include "sync/rounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace archipelago::sync {
namespace {

constexpr int kPeersForMedian = 2;  // others in the round
constexpr std::size_t kMergesForMedian = 3;
constexpr std::size_t kNormsKept = 8;
constexpr std::size_t kStepsKept = 16;
constexpr double kMostAlone = 6;  // intervals that a learner trains, and others meanwhile
constexpr double kLonger = 2;     // than those whose work was merged last
constexpr const char* kNotFinite = "not finite";
constexpr const char* kDiverged = "diverged";
constexpr const char* kTooLongAlone = "too long alone";

}  // namespace

Rounds::Rounds(const Settings& settings) : settings_(settings), history_(settings.fragments) {}

Round& Rounds::open(std::int64_t number, int fragment, Nanoseconds now, int learners) {
  if (unused_.empty()) {
    rounds_.emplace_back();
  } else {
    rounds_.push_back(std::move(unused_.back()));
    unused_.pop_back();
  }
  Round& round = rounds_.back();
  round.number = number;
  round.fragment = fragment;
  round.opened = now;
  round.merging = false;
  round.grace_end.reset();
  round.answers.assign(learners, Answer{});
  round.waiting = round.delivered = round.refused = 0;
  return round;
}

void Rounds::ask(Round& round, int learner, int incarnation, std::vector<Action>& actions) {
  if (learner >= static_cast<int>(round.answers.size())) round.answers.resize(learner + 1);
  round.answers[learner] = Answer{Answer::State::waiting, incarnation};
  ++round.waiting;
  actions.push_back(Ask{learner, incarnation, round.number, round.fragment});
}

void Rounds::ask_again(Round& round, std::vector<Action>& actions) {
  for (int learner = 0; learner < static_cast<int>(round.answers.size()); ++learner) {
    const Answer& answer = round.answers[learner];
    if (answer.state != Answer::State::waiting) continue;
    actions.push_back(Ask{learner, answer.incarnation, round.number, round.fragment});
  }
}

void Rounds::invite(Round& round, int learner, int incarnation, std::vector<Action>& actions) {
  const bool known = learner < static_cast<int>(round.answers.size()) &&
                     round.answers[learner].state != Answer::State::not_asked;
  if (!known) {
    ask(round, learner, incarnation, actions);
  } else if (round.answers[learner].state == Answer::State::gone) {
    round.answers[learner].state = Answer::State::waiting;
    ++round.waiting;
  }
}

void Rounds::excuse(int learner) {
  for (Round& round : rounds_) {
    if (learner >= static_cast<int>(round.answers.size())) continue;
    Answer& answer = round.answers[learner];
    if (answer.state != Answer::State::waiting) continue;
    answer.state = Answer::State::gone;
    --round.waiting;
  }
}

void Rounds::drop_life(int learner, int incarnation, std::vector<Action>& actions) {
  excuse(learner);
  note_soundness(learner, true);
  for (Round& round : rounds_) {
    if (round.merging || learner >= static_cast<int>(round.answers.size())) continue;
    Answer& answer = round.answers[learner];
    if (answer.state == Answer::State::delivered) {
      --round.delivered;
      actions.push_back(
          Discard{learner, incarnation, round.number, round.fragment, "learner lost"});
    }
    if (answer.state == Answer::State::refused) --round.refused;
    answer = Answer{};
  }
}

void Rounds::restart(Round& round, Nanoseconds now, const std::vector<LearnerView>& learners,
                     std::vector<Action>& actions) {
  merging_ -= round.merging;
  round.merging = false;
  round.opened = now;
  round.grace_end.reset();
  round.answers.assign(learners.size(), Answer{});
  round.waiting = round.delivered = round.refused = 0;
  for (int learner = 0; learner < static_cast<int>(learners.size()); ++learner) {
    if (learners[learner].state == LearnerState::active) {
      ask(round, learner, learners[learner].incarnation, actions);
    }
  }
}

std::string Rounds::take(const Delivery& delivery, std::int32_t version, std::int64_t last_opened) {
  Round* round = find(delivery.round);
  if (round == nullptr) return delivery.round > last_opened ? "not asked" : "late";
  if (delivery.learner >= static_cast<int>(round->answers.size())) return "not asked";
  Answer& answer = round->answers[delivery.learner];
  if (answer.state == Answer::State::not_asked || answer.incarnation != delivery.incarnation) {
    return "not asked";
  }
  if (answer.state == Answer::State::delivered || answer.state == Answer::State::refused) {
    return "duplicate";
  }
  if (round->merging) return "late";
  if (answer.state == Answer::State::waiting) --round->waiting;
  answer.state = Answer::State::refused;
  ++round->refused;
  if (delivery.fragment != round->fragment) return "wrong fragment";
  if (delivery.base_version > version) return "base newer than the clock";
  if (delivery.steps < 0 || delivery.tokens < 0) return "negative counters";
  if (!std::isfinite(delivery.norm)) return kNotFinite;
  if (was_too_long_alone(delivery, version)) return kTooLongAlone;
  answer.state = Answer::State::delivered;
  --round->refused;
  ++round->delivered;
  const double tokens = static_cast<double>(delivery.tokens);
  answer.weight = delivery.steps == 0 ? 0 : tokens * (tokens / static_cast<double>(delivery.steps));
  answer.norm = delivery.norm / static_cast<double>(std::max<std::int64_t>(delivery.steps, 1));
  answer.loss = delivery.loss;
  answer.steps = delivery.steps;
  answer.at_tokens = delivery.at_tokens;
  answer.tokens = delivery.tokens;
  note_soundness(delivery.learner, !settings_.has_diverged(delivery.loss));
  return {};
}

bool Rounds::is_unsound(const std::string& refusal) {
  return refusal == kNotFinite || refusal == kTooLongAlone;
}

// Cut off, it trained on while the others went elsewhere: no outlier by its steps, but so many that
// it would draw all of Theta after it. Who is fast has missed nothing, who is slow made few steps,
// and where links are slow for all the others' work is as old.
bool Rounds::was_too_long_alone(const Delivery& delivery, std::int32_t version) const {
  const double most = kMostAlone * settings_.interval;
  const auto own = static_cast<double>(delivery.steps);
  const auto& steps = history_[delivery.fragment].steps;
  if (own <= most || steps.empty() || own <= kLonger * steps.back()) return false;
  const auto missed = std::min(static_cast<std::ptrdiff_t>(version) - delivery.base_version,
                               static_cast<std::ptrdiff_t>(steps.size()));
  return std::accumulate(steps.end() - missed, steps.end(), 0.0) > most;
}

double Rounds::median(std::vector<double>& values) const {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void Rounds::note_soundness(int learner, bool is_sound) {
  if (learner >= static_cast<int>(gave_unsound_.size())) gave_unsound_.resize(learner + 1, false);
  gave_unsound_[learner] = !is_sound;
}

bool Rounds::is_sound(int learner, const LearnerView& view) const {
  const bool gave_unsound =
      learner < static_cast<int>(gave_unsound_.size()) && gave_unsound_[learner];
  return view.state == LearnerState::active && !view.diverged && !gave_unsound;
}

// Where nobody is sound, what all have taken in is not: only their work can mend that.
bool Rounds::has_diverged(const Answer& answer, int learner,
                          const std::vector<LearnerView>& learners) const {
  const LearnerView& view = learners[learner];
  const bool is_diverged = view.incarnation == answer.incarnation && view.diverged;
  if (!std::isfinite(answer.loss) || (is_diverged && !std::isfinite(view.loss))) return true;
  if (!is_diverged && !settings_.has_diverged(answer.loss)) return false;
  for (int other = 0; other < static_cast<int>(learners.size()); ++other) {
    if (other != learner && is_sound(other, learners[other])) return true;
  }
  return false;
}

const std::vector<Rounds::Refusal>& Rounds::refuse_unsound(
    Round& round, const std::vector<LearnerView>& learners) {
  refusals_.clear();
  for (int learner = 0; learner < static_cast<int>(round.answers.size()); ++learner) {
    const Answer& answer = round.answers[learner];
    if (answer.state == Answer::State::delivered && has_diverged(answer, learner, learners)) {
      refuse(round, learner, kDiverged);
    }
  }
  if (settings_.outlier > 0) refuse_outliers(round);
  return refusals_;
}

void Rounds::refuse(Round& round, int learner, const char* reason) {
  round.answers[learner].state = Answer::State::refused;
  --round.delivered;
  ++round.refused;
  refusals_.push_back({learner, reason});
}

void Rounds::refuse_outliers(Round& round) {
  outliers_.clear();
  const std::vector<double>& history = history_[round.fragment].norms;
  for (int learner = 0; learner < static_cast<int>(round.answers.size()); ++learner) {
    const Answer& answer = round.answers[learner];
    if (answer.state != Answer::State::delivered || answer.weight == 0) continue;
    scratch_.clear();
    for (int other = 0; other < static_cast<int>(round.answers.size()); ++other) {
      const Answer& peer = round.answers[other];
      if (other != learner && peer.state == Answer::State::delivered && peer.weight > 0) {
        scratch_.push_back(peer.norm);
      }
    }
    if (scratch_.size() < kPeersForMedian) {
      if (history.size() < kMergesForMedian) continue;
      scratch_ = history;
    }
    const double usual = median(scratch_);
    if (usual > 0 && answer.norm > settings_.outlier * usual) outliers_.push_back(learner);
  }
  for (const int learner : outliers_) refuse(round, learner, "outlier");
}

void Rounds::abandon(Round& round, const std::string& reason, std::vector<Action>& actions) {
  for (int learner = 0; learner < static_cast<int>(round.answers.size()); ++learner) {
    const Answer& answer = round.answers[learner];
    if (answer.state != Answer::State::delivered) continue;
    actions.push_back(Discard{learner, answer.incarnation, round.number, round.fragment, reason});
  }
  remove(round);
}

bool Rounds::start_merge(Round& round, std::vector<Action>& actions) {
  Merge merge{round.number, round.fragment, {}};
  for (int learner = 0; learner < static_cast<int>(round.answers.size()); ++learner) {
    const Answer& answer = round.answers[learner];
    if (answer.state != Answer::State::delivered) continue;
    if (answer.weight > 0) {
      merge.contributions.push_back({learner, answer.incarnation, answer.weight});
    } else {
      actions.push_back(
          Discard{learner, answer.incarnation, round.number, round.fragment, "nothing new"});
    }
  }
  if (merge.contributions.empty()) {
    remove(round);
    return false;
  }
  round.merging = true;
  round.grace_end.reset();
  ++merging_;
  actions.push_back(std::move(merge));
  return true;
}

void Rounds::remember(const Round& round) {
  scratch_.clear();
  double steps = 0;
  for (const Answer& answer : round.answers) {
    if (answer.state == Answer::State::delivered && answer.weight > 0) {
      scratch_.push_back(answer.norm);
      steps += static_cast<double>(answer.steps);
    }
  }
  const auto keep = [](std::vector<double>& history, std::size_t most, double value) {
    if (history.size() == most) history.erase(history.begin());
    history.push_back(value);
  };
  History& history = history_[round.fragment];
  keep(history.steps, kStepsKept, steps / static_cast<double>(scratch_.size()));
  keep(history.norms, kNormsKept, median(scratch_));
}

void Rounds::remove(const Round& round) {
  merging_ -= round.merging;
  const auto place = rounds_.begin() + (&round - rounds_.data());
  unused_.push_back(std::move(*place));
  rounds_.erase(place);
}

Round* Rounds::find(std::int64_t number) {
  for (Round& round : rounds_) {
    if (round.number == number) return &round;
  }
  return nullptr;
}

bool Rounds::holds_fragment(int fragment) const {
  return std::any_of(rounds_.begin(), rounds_.end(),
                     [&](const Round& round) { return round.fragment == fragment; });
}

}  // namespace archipelago::sync
