#include "sync/leases.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace archipelago::sync {
namespace {

bool contains(const Leases::Held& held, int shard) {
  return std::any_of(held.begin(), held.end(),
                     [shard](const data::ShardCursor& at) { return at.shard == shard; });
}

data::Shards order_of(std::int64_t windows, std::int64_t shards, std::size_t learners,
                      const std::vector<std::int64_t>& cursors) {
  if (std::any_of(cursors.begin(), cursors.end(), [](std::int64_t at) { return at < 0; })) {
    throw Error(ExitCode::bad_data, "the checkpoint's data shards are before their beginning");
  }
  if (shards < static_cast<std::int64_t>(learners)) {
    throw Error(ExitCode::bad_data, "the run that wrote the checkpoint has " +
                                        std::to_string(shards) + " data shards, too few for " +
                                        std::to_string(learners) +
                                        " learners: resume with no more learners than that");
  }
  if (windows >= shards) return {windows, static_cast<int>(shards)};
  throw Error(ExitCode::bad_data, "the training data has " + std::to_string(windows) +
                                      " sequences, too few for the " + std::to_string(shards) +
                                      " shards of this run: resume with the data of the run that "
                                      "wrote the checkpoint, or prepare more");
}

std::vector<int> members_of(const Settings& settings, int group) {
  std::vector<int> members;
  for (int learner = 0; learner < settings.learners; ++learner) {
    if (Leases::group_of(settings, learner) == group) members.push_back(learner);
  }
  return members;
}

}  // namespace

int Leases::group_of(const Settings& settings, int learner) {
  return learner < static_cast<int>(settings.groups.size()) ? settings.groups[learner] : 0;
}

std::vector<Leases> Leases::of_all_groups(const Settings& settings, const Restored& restored,
                                          const Membership& membership) {
  std::int64_t total = 0;
  for (const int shards : settings.shards) total += shards;
  const bool one_group = settings.shards.size() == 1;
  const bool fits = restored.shards.empty() || one_group ||
                    total == static_cast<std::int64_t>(restored.shards.size());
  if (!settings.shards.empty() && !fits) {
    throw Error(ExitCode::bad_data,
                "the checkpoint's data shards are shared out otherwise: resume with the learners "
                "and data files of the run that wrote it");
  }
  std::vector<Leases> all;
  auto first = restored.shards.begin();
  for (int group = 0; group < static_cast<int>(settings.shards.size()); ++group) {
    auto last = restored.shards.end();
    if (!one_group && !restored.shards.empty()) last = first + settings.shards[group];
    all.emplace_back(settings, group, std::vector<std::int64_t>(first, last), membership);
    first = last;
  }
  return all;
}

Leases::Leases(const Settings& settings, int group, const std::vector<std::int64_t>& cursors,
               const Membership& membership)
    : group_(group),
      groups_(settings.groups),
      order_(order_of(
          settings.windows[group],
          cursors.empty() ? settings.shards[group] : static_cast<std::int64_t>(cursors.size()),
          members_of(settings, group).size(), cursors)),
      sequence_tokens_(settings.sequence_tokens),
      homes_(members_of(settings, group)),
      tenures_(membership.views().size()) {
  for (std::size_t i = 0; i < tenures_.size(); ++i) {
    tenures_[i].since = membership.views()[i].tokens;
  }
  for (int shard = 0; shard < shards(); ++shard) {
    const std::int64_t cursor = cursors.empty() ? 0 : cursors[static_cast<std::size_t>(shard)];
    Held& owner = homes_.empty() ? free_ : tenures_[home_of(shard)].held;
    owner.push_back({shard, cursor});
  }
}

bool Leases::is_member(int learner) const {
  return (learner < static_cast<int>(groups_.size()) ? groups_[learner] : 0) == group_;
}

// The learner that the shard started with; -1: none.
int Leases::home_of(int shard) const {
  return homes_.empty() ? -1 : homes_[shard % static_cast<int>(homes_.size())];
}

// What the learner holds once it has trained so many tokens, as far as is known.
Leases::Held Leases::held_at(int learner, std::int64_t tokens) const {
  const Tenure& tenure = tenures_[learner];
  Held held = tenure.held;
  order_.advance(held, (tokens - tenure.since) / sequence_tokens_);
  return held;
}

void Leases::rewind(int learner, std::int64_t tokens) {
  if (learner >= static_cast<int>(tenures_.size()) || !is_member(learner)) return;
  Tenure& tenure = tenures_[learner];
  Held held = held_at(learner, tokens);
  for (const data::ShardCursor& at : tenure.offered.value_or(Held{})) {
    if (!contains(held, at.shard)) held.push_back(at);
  }
  tenure.held = std::move(held);
  tenure.since = std::max(tenure.since, tokens);
  tenure.offered.reset();
  tenure.incarnation = -1;
}

bool Leases::follow(const LeaseFollowed& event) {
  if (event.learner >= static_cast<int>(tenures_.size())) return false;
  Tenure& tenure = tenures_[event.learner];
  if (!tenure.offered || event.number != tenure.number || event.incarnation != tenure.incarnation ||
      event.tokens < tenure.since) {
    return false;
  }
  const Held before = held_at(event.learner, event.tokens);
  Held now = std::move(*tenure.offered);
  tenure.offered.reset();
  data::carry_over(now, before);
  for (const data::ShardCursor& at : before) {
    if (!contains(now, at.shard)) free_.push_back(at);
  }
  tenure.held = std::move(now);
  tenure.since = event.tokens;
  return true;
}

void Leases::balance(const Membership& membership, std::vector<Action>& actions) {
  tenures_.resize(std::max(tenures_.size(), membership.views().size()));
  plans_.assign(tenures_.size(), std::nullopt);
  free_abandoned(membership);
  if (!holders_.empty()) {
    give_free();
    take_from_rich(membership);
  }
  tell(membership, actions);
}

void Leases::free_abandoned(const Membership& membership) {
  holders_.clear();
  for (int learner = 0; learner < static_cast<int>(tenures_.size()); ++learner) {
    if (!is_member(learner)) continue;
    if (membership.is_alive(learner) || membership.waits_for_home(learner)) {
      holders_.push_back(learner);
    } else if (!membership.is_leaving(learner)) {
      Held& held = tenures_[learner].held;
      free_.insert(free_.end(), held.begin(), held.end());
      held.clear();
    }
  }
  std::sort(free_.begin(), free_.end(),
            [](const auto& a, const auto& b) { return a.shard < b.shard; });
}

const Leases::Held& Leases::planned(int learner) const {
  if (plans_[learner]) return *plans_[learner];
  return tenures_[learner].offered ? *tenures_[learner].offered : tenures_[learner].held;
}

Leases::Held& Leases::plan(int learner) {
  if (!plans_[learner]) plans_[learner] = tenures_[learner].held;
  return *plans_[learner];
}

// Who has the fewest shards, among equals the one whom the shard started with, then the first; -1
// where that one has to follow a Lease first.
int Leases::receiver(int shard) const {
  int best = -1;
  for (const int learner : holders_) {
    const auto key = [&](int l) {
      return std::pair(planned(l).size(), l == home_of(shard) ? -1 : l);
    };
    if (best < 0 || key(learner) < key(best)) best = learner;
  }
  return tenures_[best].offered ? -1 : best;
}

void Leases::give_free() {
  std::erase_if(free_, [this](const data::ShardCursor& at) {
    const int learner = receiver(at.shard);
    if (learner < 0) return false;
    plan(learner).push_back(at);
    return true;
  });
}

// Shards that will be free without anybody being told more.
std::int64_t Leases::on_their_way(const Membership& membership) const {
  auto count = static_cast<std::int64_t>(free_.size());
  for (int learner = 0; learner < static_cast<int>(tenures_.size()); ++learner) {
    const Tenure& tenure = tenures_[learner];
    if (is_member(learner) && membership.is_leaving(learner)) {
      count += static_cast<std::int64_t>(tenure.held.size());
    } else if (tenure.offered) {
      for (const auto& at : tenure.held) count += !contains(*tenure.offered, at.shard);
    }
  }
  return count;
}

void Leases::take_from_rich(const Membership& membership) {
  const std::size_t low = static_cast<std::size_t>(shards()) / holders_.size();
  const std::size_t high = (static_cast<std::size_t>(shards()) - 1) / holders_.size() + 1;
  std::int64_t lacking = -on_their_way(membership);
  for (const int learner : holders_) {
    const std::size_t has = planned(learner).size();
    lacking += static_cast<std::int64_t>(low - std::min(has, low));
  }
  for (;; --lacking) {
    int richest = -1;
    for (const int learner : holders_) {
      if (tenures_[learner].offered || !membership.is_alive(learner)) continue;
      if (planned(learner).size() <= (lacking > 0 ? low : high)) continue;
      if (richest < 0 || planned(learner).size() > planned(richest).size()) richest = learner;
    }
    if (richest < 0) return;
    Held& held = plan(richest);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(choose_to_give_up(held, low)));
  }
}

// One that started with a learner that lacks shards now, else the last.
std::size_t Leases::choose_to_give_up(const Held& held, std::size_t low) const {
  for (std::size_t i = held.size(); i > 0; --i) {
    const int home = home_of(held[i - 1].shard);
    if (std::find(holders_.begin(), holders_.end(), home) != holders_.end() &&
        planned(home).size() < low) {
      return i - 1;
    }
  }
  return held.size() - 1;
}

void Leases::tell(const Membership& membership, std::vector<Action>& actions) {
  for (const int learner : holders_) {
    Tenure& tenure = tenures_[learner];
    if (!membership.is_alive(learner)) {  // its life will be told
      if (plans_[learner]) tenure.held = std::move(*plans_[learner]);
      continue;
    }
    const int incarnation = membership.views()[learner].incarnation;
    const bool is_new = tenure.incarnation != incarnation;
    if (!is_new && !plans_[learner]) continue;
    tenure.incarnation = incarnation;
    Held lease = planned(learner);
    if (lease.empty() && tenure.held.empty()) continue;
    Lease action{learner, incarnation, ++tenure.number, {}, {}};
    for (const data::ShardCursor& at : lease) {
      action.shards.push_back(at.shard);
      action.cursors.push_back(at.cursor);
    }
    tenure.offered = std::move(lease);
    actions.push_back(std::move(action));
  }
}

std::vector<std::int64_t> Leases::cursors(const Membership& membership) const {
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(shards()));
  const auto note = [&](const Held& held) {
    for (const auto& at : held) cursors[static_cast<std::size_t>(at.shard)] = at.cursor;
  };
  note(free_);
  for (int learner = 0; learner < static_cast<int>(tenures_.size()); ++learner) {
    if (!is_member(learner)) continue;
    if (tenures_[learner].offered) note(*tenures_[learner].offered);
    note(held_at(learner, membership.lasting_tokens(learner)));
  }
  return cursors;
}

}  // namespace archipelago::sync
