#include "invariants.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace archipelago::sync {
namespace {

// Whether a Discard for this reason drops what had been taken into a round before.
bool drops_taken(const std::string& reason) {
  return reason == "outlier" || reason == "diverged" || reason == "nothing new" ||
         reason == "stopping" || reason == "learner lost";
}

double weight_of(const Delivery& delivery) {
  const double tokens = static_cast<double>(delivery.tokens);
  return delivery.steps == 0 ? 0 : tokens * (tokens / static_cast<double>(delivery.steps));
}

}  // namespace

Invariants::Invariants(const Settings& settings, const Restored& restored, const Machine& machine)
    : settings_(settings),
      machine_(machine),
      versions_(machine.versions()),
      last_round_(restored.round),
      places_(settings.learners),
      closed_(restored.round),
      saved_(restored.round) {
  for (std::size_t learner = 0; learner < restored.incarnations.size(); ++learner) {
    life(static_cast<int>(learner)).incarnation = restored.incarnations[learner];
  }
  untold_sequences_ = machine.total_tokens() / settings.sequence_tokens;
  for (const std::int64_t cursor : restored.shards) untold_sequences_ -= cursor;
}

void Invariants::expect(bool holds, const std::string& what) {
  if (!holds && wrong_.empty()) wrong_ = what;
}

Invariants::Life& Invariants::life(int learner) {
  if (learner >= static_cast<int>(lives_.size())) lives_.resize(learner + 1);
  return lives_[learner];
}

std::string Invariants::check(Nanoseconds now, const Event& event,
                              const std::vector<Action>& actions) {
  expect(!finished_ || actions.empty(), "actions after Finish");
  if (finished_) return wrong_;
  note(now, event, actions);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    std::visit([&](const auto& action) { take(now, action); }, actions[i]);
    if (const Assign* assign = std::get_if<Assign>(&actions[i])) {
      expect(i + 1 < actions.size() &&
                 actions[i + 1] == Action{Refresh{assign->learner, assign->incarnation}},
             "an Assign without its Refresh");
    }
    expect(!finished_ || i + 1 == actions.size(), "Finish is not the last action");
  }
  close_silent();
  expect(closed_ == machine_.rounds(), "rounds closed are miscounted");
  check_views(now, std::holds_alternative<Tick>(event));
  check_shards();
  check_grace(now, std::holds_alternative<Tick>(event));
  xi_ = step_seconds();
  return wrong_;
}

void Invariants::note_ready(int island) {
  const bool plays = std::any_of(lives_.begin(), lives_.end(),
                                 [&](const Life& it) { return it.alive && it.island == island; });
  if (!plays && !gone_.contains(island)) idle_.insert(island);
}

// A guest that has not just retired may get a place that was a guest's, or the one after the last,
// which is wanted then; nobody else may.
void Invariants::note_growth(int guest, bool had_retired, const std::vector<Action>& actions) {
  const int next = empty_places_.empty() ? places_ : *empty_places_.begin();
  const bool got_new_place = std::ranges::any_of(actions, [&](const Action& action) {
    const auto* assign = std::get_if<Assign>(&action);
    return assign != nullptr && assign->island == guest && assign->learner == next;
  });
  if (!got_new_place) return;
  expect(!had_retired, "made a place for a guest that was to retire");
  empty_places_.erase(next);
  guest_places_.insert(next);
  places_ = std::max(places_, next + 1);
  life(next).retired = false;
}

void Invariants::end_life(int learner) {
  life(learner).alive = false;
  if (guest_places_.contains(learner)) empty_places_.insert(learner);
}

void Invariants::note(Nanoseconds now, const Event& event, const std::vector<Action>& actions) {
  if (const auto* ready = std::get_if<IslandReady>(&event)) {
    end_retirement(ready->island);
    note_ready(ready->island);
  } else if (const auto* guest = std::get_if<GuestReady>(&event)) {
    const bool had_retired = end_retirement(guest->island);
    note_ready(guest->island);
    note_growth(guest->island, had_retired, actions);
  } else if (const auto* lost = std::get_if<IslandLost>(&event)) {
    end_retirement(lost->island);
    gone_.insert(lost->island);
    idle_.erase(lost->island);
    for (int learner = 0; learner < static_cast<int>(lives_.size()); ++learner) {
      if (life(learner).alive && life(learner).island == lost->island) end_life(learner);
    }
  } else if (const auto* report = std::get_if<Report>(&event)) {
    Life& it = life(report->learner);
    if (!it.alive || it.incarnation != report->incarnation) return;
    it.heard = now;
    if (report->step >= it.step.value_or(report->step)) {
      it.step = report->step;
      it.diverged = report->step_seconds > 0 && settings_.has_diverged(report->loss);
      it.loss = report->step_seconds > 0 ? report->loss : 0;
      it.has_diverged = it.has_diverged || it.diverged;
    }
    it.joined = it.joined || std::equal(it.target.begin(), it.target.end(), report->held.begin(),
                                        [](auto target, auto held) { return held >= target; });
  } else if (const auto* delivery = std::get_if<Delivery>(&event)) {
    note_delivery(now, *delivery, actions);
  } else if (const auto* merged = std::get_if<Merged>(&event)) {
    const OpenRound& round = rounds_.at(merged->round);
    expect(!actions.empty() && actions.front() == Action{Publish{merged->round, round.fragment,
                                                                 versions_[round.fragment] + 1}},
           "Merged is not answered by Publish of the next version");
    merge_seconds_ =
        merge_seconds_ ? 0.8 * *merge_seconds_ + 0.2 * merged->seconds : merged->seconds;
    double steps = 0;
    for (const auto& part : round.taken) steps += static_cast<double>(part.second.steps);
    merged_steps_[round.fragment].push_back(steps / static_cast<double>(round.taken.size()));
    ++versions_[round.fragment];
    --merging_;
    ++closed_;
    rounds_.erase(merged->round);
  } else if (const auto* scale = std::get_if<ScaleRequested>(&event)) {
    places_ = scale->learners;
    guest_places_.clear();
    empty_places_.clear();
    for (int learner = 0; learner < places_; ++learner) life(learner).retired = false;
  } else if (std::holds_alternative<StopRequested>(event)) {
    stopping_ = true;
  } else if (std::holds_alternative<SyncerReplaced>(event)) {
    held_.clear();
    merging_ = 0;
    replaced_ = now;
    for (Life& it : lives_) it.heard = now;
    for (auto& [number, round] : rounds_) {
      const int fragment = round.fragment;
      round = {};
      round.fragment = fragment;
      round.opened = now;
    }
  }
}

// Nothing that is not finite, and while another learner is sound no diverged step.
bool Invariants::may_count(int learner, const Delivery& delivery) {
  const Life& own = life(learner);
  const bool finite = std::isfinite(delivery.loss) && std::isfinite(own.loss);
  const bool sound = !own.diverged && !settings_.has_diverged(delivery.loss);
  bool others_sound = false;
  for (int other = 0; other < static_cast<int>(lives_.size()); ++other) {
    const Life& it = life(other);
    others_sound = others_sound || (other != learner && !it.diverged && !it.gave_unsound &&
                                    machine_.learners()[other].state == LearnerState::active);
  }
  return finite && (sound || !others_sound);
}

// Its own steps, and those of the merges that it missed, of which the last 16 count.
bool Invariants::was_alone(const Delivery& delivery, std::int32_t missed) const {
  double others = 0;
  if (const auto merges = merged_steps_.find(delivery.fragment); merges != merged_steps_.end()) {
    const auto& steps = merges->second;
    const auto known = std::min<std::int64_t>({missed, 16, std::ssize(steps)});
    for (std::int64_t i = 0; i < known; ++i) others += steps[steps.size() - 1 - i];
  }
  const double most = 6 * settings_.interval;
  const double own = static_cast<double>(delivery.steps);
  return own > most && others > most && own > 2 * merged_steps_.at(delivery.fragment).back();
}

void Invariants::note_delivery(Nanoseconds now, const Delivery& delivery,
                               const std::vector<Action>& actions) {
  Life& it = life(delivery.learner);
  const bool current = it.incarnation == delivery.incarnation && it.alive;
  if (current) it.heard = now;
  ++held_[{delivery.learner, delivery.incarnation, delivery.round}];
  const Discard* refusal = actions.empty() ? nullptr : std::get_if<Discard>(&actions.front());
  if (refusal != nullptr &&
      (refusal->learner != delivery.learner || refusal->incarnation != delivery.incarnation ||
       refusal->round != delivery.round || drops_taken(refusal->reason))) {
    refusal = nullptr;
  }
  const auto found = rounds_.find(delivery.round);
  const bool open = found != rounds_.end() && !found->second.merging;
  const bool asked = found != rounds_.end() &&
                     found->second.asked.contains({delivery.learner, delivery.incarnation});
  const bool first = asked && !found->second.taken.contains(delivery.learner) &&
                     !found->second.refused.contains(delivery.learner);
  const std::int32_t missed = versions_[delivery.fragment] - delivery.base_version;
  const bool sound = std::isfinite(delivery.norm) && missed >= 0 && !was_alone(delivery, missed);
  const bool counts = current || (it.retired && it.incarnation == delivery.incarnation);
  const bool good = counts && open && asked && first && sound;
  if (refusal == nullptr) {
    expect(good, "took a delivery that is late, stale, not asked, twice, or broken");
    if (good) found->second.taken[delivery.learner] = delivery;
    if (good) it.gave_unsound = settings_.has_diverged(delivery.loss);
  } else {
    expect(!good || stopping_, "refused a good delivery: " + refusal->reason);
    if (counts && open && asked && first && !sound) found->second.refused.insert(delivery.learner);
  }
}

void Invariants::take(Nanoseconds now, const Assign& action) {
  Life& it = life(action.learner);
  expect(idle_.contains(action.island), "assigned an island that is not idle");
  expect(action.learner < places_ && !empty_places_.contains(action.learner),
         "assigned a learner that is not wanted");
  expect(!it.alive, "assigned a learner that lives");
  expect(action.incarnation == it.incarnation + 1, "a life does not count up by one");
  expect(!paused_ && !stopping_, "assigned an island while the run ends");
  const auto& merged = machine_.learners()[action.learner].merged_tokens;
  const std::int64_t mean =
      std::accumulate(merged.begin(), merged.end(), std::int64_t{0}) / settings_.fragments;
  expect(action.tokens == mean / settings_.batch_tokens * settings_.batch_tokens,
         "a life does not go on from what is merged of the last one");
  idle_.erase(action.island);
  it = {action.incarnation, true, false, false, action.island, now, versions_};
}

void Invariants::take(Nanoseconds, const Refresh& action) {
  const Life& it = life(action.learner);
  expect(it.alive && it.incarnation == action.incarnation, "refreshed a life that is over");
}

// An island that a learner has retired from is back: what it gave last counts no more.
bool Invariants::end_retirement(int island) {
  bool had_retired = false;
  for (Life& it : lives_) {
    if (it.retired && it.island == island) had_retired = std::exchange(it.retired, false);
  }
  return had_retired;
}

void Invariants::take(Nanoseconds, const Lease& action) {
  const Life& it = life(action.learner);
  expect(it.alive && it.incarnation == action.incarnation, "leased shards to a life that is over");
  expect(!stopping_ && !paused_, "leased shards while the run ends");
  for (const int shard : action.shards) {
    for (int other = 0; other < static_cast<int>(machine_.leases()[0].tenures().size()); ++other) {
      if (other == action.learner) continue;
      for (const auto& at : machine_.leases()[0].tenures()[other].held) {
        expect(at.shard != shard, "leased a shard that another learner holds");
      }
    }
  }
}

// Each shard is in one place, and each token was taken from one of them.
void Invariants::check_shards() {
  if (machine_.leases().empty()) return;
  const Leases& leases = machine_.leases()[0];
  std::vector<int> places(static_cast<std::size_t>(leases.shards()));
  std::int64_t taken = 0;
  const auto count = [&](const data::ShardCursor& at) {
    ++places[static_cast<std::size_t>(at.shard)];
    taken += at.cursor;
  };
  for (const auto& at : leases.free()) count(at);
  for (int learner = 0; learner < static_cast<int>(leases.tenures().size()); ++learner) {
    const Leases::Tenure& tenure = leases.tenures()[learner];
    const LearnerView& view = machine_.learners()[learner];
    std::set<int> held;
    for (const auto& at : tenure.held) {
      count(at);
      held.insert(at.shard);
    }
    for (const auto& at : tenure.offered.value_or(Leases::Held{})) {
      if (!held.contains(at.shard)) count(at);
    }
    expect(view.tokens >= tenure.since, "a learner fell back behind its lease");
    taken += (view.tokens - tenure.since) / settings_.sequence_tokens;
    expect(held.empty() || machine_.ending() || life(learner).alive || life(learner).retired ||
               machine_.learners()[learner].state == LearnerState::vacant,
           "a learner that is gone keeps its shards");
  }
  for (const int count_of_shard : places) {
    expect(count_of_shard == 1, "a shard is in two places, or in none");
  }
  expect(taken + untold_sequences_ == machine_.total_tokens() / settings_.sequence_tokens,
         "tokens and sequences taken do not agree");
}

void Invariants::take(Nanoseconds now, const Ask& action) {
  const Life& it = life(action.learner);
  expect(machine_.learners()[action.learner].state == LearnerState::active &&
             it.incarnation == action.incarnation && it.joined,
         "asked a learner that does not count");
  expect(!stopping_, "asked while stopping");
  if (action.round > last_round_) {
    close_silent();
    expect(action.round == last_round_ + 1, "a round number is left out");
    expect(action.fragment == (action.round - 1) % settings_.fragments, "wrong fragment's turn");
    if (!paused_) {
      expect(static_cast<int>(rounds_.size()) < settings_.max_open_rounds, "too many open rounds");
      for (const auto& [number, round] : rounds_) {
        expect(round.fragment != action.fragment, "a fragment is in two open rounds");
      }
      const double interval = settings_.interval * step_seconds() / settings_.fragments;
      expect(!last_opening_ || static_cast<double>(now - *last_opening_) >= interval * 1e9 - 1,
             "a round opened too soon");
    }
    last_round_ = action.round;
    last_opening_ = now;
    rounds_[action.round] = {};
    rounds_[action.round].fragment = action.fragment;
    rounds_[action.round].opened = now;
  }
  expect(rounds_.contains(action.round) && !rounds_[action.round].merging,
         "asked for a round that is not open");
  OpenRound& round = rounds_[action.round];
  const bool first = round.asked.insert({action.learner, action.incarnation}).second;
  const auto delivered = round.taken.find(action.learner);
  expect(first || delivered == round.taken.end() ||
             delivered->second.incarnation != action.incarnation,
         "asked again for what was delivered");
  rounds_[action.round].refused.erase(action.learner);  // of an earlier life
}

void Invariants::take(Nanoseconds now, const Merge& action) {
  ++merges_;
  OpenRound& round = rounds_[action.round];
  expect(!round.merging && round.fragment == action.fragment, "merged a round that is not open");
  expect(!action.contributions.empty(), "merged nothing");
  std::set<int> merged;
  for (const Contribution& part : action.contributions) {
    const auto taken = round.taken.find(part.learner);
    const Life& it = life(part.learner);
    expect(merged.insert(part.learner).second, "merged a learner twice into one round");
    expect(taken != round.taken.end() && taken->second.incarnation == part.incarnation,
           "merged what was not delivered");
    expect(part.incarnation == it.incarnation && (it.alive || it.retired),
           "merged an old incarnation");
    expect(it.joined, "a recovering learner has weight");
    expect(std::isfinite(part.weight) && part.weight > 0, "a weight is not finite and positive");
    if (taken == round.taken.end()) continue;
    expect(may_count(part.learner, taken->second), "merged a learner that has diverged");
    expect(part.weight == weight_of(taken->second), "a weight is not tokens * tokens / step");
    drop({part.learner, part.incarnation, action.round});
  }
  for (const auto& [learner, delivery] : round.taken) {
    expect(merged.contains(learner), "left a contribution out");
  }
  const int answers = static_cast<int>(round.taken.size() + round.refused.size());
  expect(answers >= quorum() || paused_, "merged without the quorum");
  // The grace window is kept while someone is waited for.
  if (!stopping_ && round.earliest && now < *round.earliest) {
    for (const auto& [learner, incarnation] : round.asked) {
      const bool answered = round.taken.contains(learner) || round.refused.contains(learner);
      expect(answered || machine_.learners()[learner].state != LearnerState::active ||
                 life(learner).incarnation != incarnation || round.was_gone.contains(learner),
             "did not keep the grace window for learner " + std::to_string(learner));
    }
  }
  round.merging = true;
  ++merging_;
  expect(!save_is_due(now) || merging_ == 1, "a merge started though a checkpoint is due");
}

void Invariants::take(Nanoseconds, const Publish& action) {
  expect(versions_[action.fragment] == action.version, "published a wrong version");
}

void Invariants::take(Nanoseconds, const Discard& action) {
  drop({action.learner, action.incarnation, action.round});
  if (!drops_taken(action.reason)) return;
  const auto round = rounds_.find(action.round);
  expect(round != rounds_.end() && round->second.taken.erase(action.learner) == 1,
         "dropped what was not taken: " + action.reason);
  if (round == rounds_.end()) return;
  if (action.reason != "learner lost") round->second.refused.insert(action.learner);
  if (action.reason == "nothing new") round->second.nothing_new = true;
}

void Invariants::drop(const Key& key) {
  const auto found = held_.find(key);
  expect(found != held_.end(), "named data that the driver does not hold");
  if (found != held_.end() && --found->second == 0) held_.erase(found);
}

void Invariants::take(Nanoseconds now, const Expel& action) {
  Life& it = life(action.learner);
  expect(it.alive && it.island == action.island && it.incarnation == action.incarnation,
         "expelled a life that is over");
  expect(now - it.heard >= settings_.expel_after, "expelled a learner that was heard");
  end_life(action.learner);
}

void Invariants::take(Nanoseconds, const Retire& action) {
  Life& it = life(action.learner);
  expect(it.alive && it.island == action.island && it.incarnation == action.incarnation,
         "retired a life that is over");
  expect(action.learner >= places_, "retired a learner that is wanted");
  it.alive = false;
  it.retired = true;
}

void Invariants::take(Nanoseconds, const Pause&) {
  expect(!paused_, "paused twice");
  expect(machine_.total_tokens() >= settings_.token_budget, "paused before the budget");
  paused_ = true;
}

void Invariants::take(Nanoseconds now, const SaveGlobal& action) {
  expect(merging_ == 0, "saved while merging");
  saved_ = action.round;
  saved_at_ = now;
}

void Invariants::take(Nanoseconds, const Refill& action) {
  expect(action.islands > 0, "an empty Refill");
}

void Invariants::take(Nanoseconds, const Finish& action) {
  const bool diverged = action.outcome == Outcome::diverged;
  expect(merging_ == 0 && (diverged || nobody_is_sound() || saved_ == machine_.rounds()),
         "finished without a checkpoint");
  for (std::size_t learner = 0; diverged && learner < machine_.learners().size(); ++learner) {
    expect(machine_.learners()[learner].state != LearnerState::active ||
               life(static_cast<int>(learner)).has_diverged,
           "gave up though a learner was always sound");
  }
  expect(diverged || (action.outcome == Outcome::complete) == (paused_ && !stopping_),
         "wrong outcome");
  finished_ = true;
}

// Rounds that closed without a Merge leave no action of their own: nobody had anything new, or all
// that came was refused, or everybody went while the last rounds were held.
void Invariants::close_silent() {
  const auto close_where = [&](const auto& reason) {
    std::erase_if(rounds_, [&](const auto& entry) {
      const OpenRound& round = entry.second;
      const bool over =
          closed_ < machine_.rounds() && !round.merging && round.taken.empty() && reason(round);
      closed_ += over;
      return over;
    });
  };
  close_where([](const OpenRound& round) { return round.nothing_new; });
  close_where([](const OpenRound& round) { return round.refused.size() == round.asked.size(); });
  close_where([](const OpenRound& round) { return !round.refused.empty(); });
  close_where([&](const OpenRound&) { return paused_; });
}

bool Invariants::save_is_due(Nanoseconds now) const {
  const std::int64_t rounds = closed_ - saved_;
  return rounds >= settings_.checkpoint_rounds || (rounds > 0 && settings_.checkpoint_after > 0 &&
                                                   now - saved_at_ >= settings_.checkpoint_after);
}

void Invariants::check_views(Nanoseconds now, bool tick) {
  expect(machine_.versions() == versions_, "the clock is not what was published");
  expect(!save_is_due(now) || merging_ > 0 || nobody_is_sound(), "a checkpoint is overdue");
  std::int64_t total = 0;
  for (int learner = 0; learner < static_cast<int>(machine_.learners().size()); ++learner) {
    const LearnerView& view = machine_.learners()[learner];
    const Life& it = life(learner);
    total += view.tokens;
    expect(is_alive(view.state) == it.alive, "a learner's state is wrong");
    if (!it.alive) continue;
    expect(view.state != LearnerState::active || it.joined, "active before it holds everything");
    const Nanoseconds silence = now - it.heard;
    expect(view.state != LearnerState::suspect || silence >= settings_.suspect_after ||
               it.heard == replaced_,
           "suspects a learner that was heard");
    if (!tick) continue;
    expect(silence < settings_.expel_after, "keeps a learner that is silent for too long");
    expect(view.state == LearnerState::suspect || silence < settings_.suspect_after,
           "counts on a learner that is silent");
  }
  expect(total == machine_.total_tokens(), "tokens are miscounted");
  expect(!tick || !machine_.next_wakeup() || *machine_.next_wakeup() > now,
         "wants a Tick at the time of the last one");
}

void Invariants::check_grace(Nanoseconds now, bool tick) {
  const bool held_back = save_is_due(now) && merging_ > 0;
  for (auto& [number, round] : rounds_) {
    if (round.merging) continue;
    for (const auto& [learner, incarnation] : round.asked) {
      if (machine_.learners()[learner].state == LearnerState::suspect) {
        round.was_gone.insert(learner);
      }
    }
    if (static_cast<int>(round.taken.size()) < quorum()) {
      round.latest.reset();
      round.earliest.reset();
      continue;
    }
    const double slack = settings_.overlap * xi_ - static_cast<double>(now - round.opened) * 1e-9 -
                         merge_seconds_.value_or(0);
    const double grace =
        std::clamp(settings_.grace * slack, 0.0, static_cast<double>(settings_.grace_cap) * 1e-9);
    const Nanoseconds deadline = now + std::llround(grace * 1e9);
    if (!round.earliest) round.earliest = deadline - 2;
    if (held_back) round.latest.reset();
    if (held_back || finished_) continue;
    if (!round.latest) {
      round.latest = std::max(deadline, *round.earliest) + 4;
      round.earliest = std::min(*round.earliest, deadline - 2);
    }
    expect(machine_.next_wakeup() && *machine_.next_wakeup() <= *round.latest,
           "does not wake up at a round's deadline");
    expect(!tick || now < *round.latest, "a round waits past quorum and grace");
  }
}

double Invariants::step_seconds() const {
  std::vector<double> known;
  for (const LearnerView& view : machine_.learners()) {
    if (view.state == LearnerState::active && view.step_seconds > 0) {
      known.push_back(view.step_seconds);
    }
  }
  if (known.empty()) return xi_;
  std::sort(known.begin(), known.end());
  return (known[(known.size() - 1) / 2] + known[known.size() / 2]) / 2;
}

int Invariants::quorum() const {
  int present = wanted();
  if (paused_ && !stopping_) {
    present = static_cast<int>(
        std::count_if(machine_.learners().begin(), machine_.learners().end(),
                      [](const LearnerView& view) { return view.state == LearnerState::active; }));
  }
  return std::max(1, std::min(settings_.quorum, present));
}

bool Invariants::nobody_is_sound() const {
  bool active = false;
  for (std::size_t learner = 0; learner < lives_.size(); ++learner) {
    if (learner >= machine_.learners().size() ||
        machine_.learners()[learner].state != LearnerState::active) {
      continue;
    }
    active = true;
    if (!lives_[learner].diverged) return false;
  }
  return active;
}

std::string Invariants::check_end() const {
  if (!finished_) return "did not finish";
  if (!held_.empty()) return "data of a delivery was never named";
  return {};
}

}  // namespace archipelago::sync
