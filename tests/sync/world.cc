#include "world.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

namespace archipelago::sync {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr double kWild = 1e6;
constexpr double kUnsoundLoss = 12;

Nanoseconds from_seconds(double seconds) { return std::llround(seconds * 1e9); }

bool later(const auto& a, const auto& b) {
  return std::pair(a.time, a.sequence) > std::pair(b.time, b.sequence);
}

const char* name_of(Fault::Kind kind) {
  constexpr const char* kNames[] = {"kill", "cut",     "freeze", "slow",  "duplicate", "poison",
                                    "wild", "diverge", "stall",  "scale", "replace",   "guest"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

World::World(const Plan& plan)
    : plan_(plan),
      machine_(plan.settings, plan.restored),
      invariants_(plan.settings, plan.restored, machine_),
      random_(plan.seed ^ 0x5EEDULL) {
  for (int island = 0; island < plan.settings.learners + plan.settings.spares; ++island) {
    boot(island, from_seconds(random_.uniform() * 0.2));
  }
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    push({plan.faults[i].time, 0, Item::Kind::fault, static_cast<int>(i), 0, {}, {}});
  }
}

void World::push(Item item) {
  item.sequence = sequence_++;
  queue_.push_back(std::move(item));
  std::push_heap(queue_.begin(), queue_.end(),
                 [](const Item& a, const Item& b) { return later(a, b); });
}

World::Item World::pop() {
  std::pop_heap(queue_.begin(), queue_.end(),
                [](const Item& a, const Item& b) { return later(a, b); });
  Item item = std::move(queue_.back());
  queue_.pop_back();
  return item;
}

std::string World::play() {
  bool stop_asked = false;
  while (broken_.empty() && !finished_) {
    std::optional<Nanoseconds> wakeup = machine_.next_wakeup();
    if (wakeup) wakeup = std::max({*wakeup, stalled_until_, now_});
    const Nanoseconds next =
        queue_.empty() ? std::numeric_limits<Nanoseconds>::max() : queue_.front().time;
    if (!stop_asked && std::min(next, wakeup.value_or(next)) > plan_.end) {
      now_ = plan_.end;
      broken_ = verdict();
      stop_asked = true;
      if (broken_.empty()) tell(now_, StopRequested{"end of the history"});
      continue;
    }
    if (wakeup && *wakeup < next) {
      now_ = *wakeup;
      tell(now_, Tick{});
      continue;
    }
    if (queue_.empty() || next > plan_.end + from_seconds(60)) return "did not finish";
    Item item = pop();
    if (item.kind == Item::Kind::to_machine && item.time < stalled_until_) {
      item.time = stalled_until_;
      push(std::move(item));
      continue;
    }
    now_ = item.time;
    switch (item.kind) {
      case Item::Kind::to_machine:
        tell(now_, item.event);
        break;
      case Item::Kind::to_island:
        receive(item.island, item.down);
        break;
      case Item::Kind::fault:
        inject(plan_.faults[item.island]);
        break;
      case Item::Kind::boot:
        if (!islands_[item.island].dead) {
          islands_[item.island].up = true;
          say_ready(item.island);
        }
        break;
      case Item::Kind::step:
        if (item.epoch == islands_[item.island].epoch) step(item.island);
        break;
      case Item::Kind::heartbeat:
        if (item.epoch == islands_[item.island].epoch) heartbeat(item.island);
        break;
    }
  }
  if (!broken_.empty()) return broken_;
  while (!queue_.empty()) {  // what is under way down arrives
    const Item item = pop();
    now_ = item.time;
    if (item.kind == Item::Kind::to_island) receive(item.island, item.down);
  }
  for (const LearnerView& view : machine_.learners()) {
    if (view.state != LearnerState::active || islands_[view.island].dead) continue;
    if (islands_[view.island].next != machine_.versions()) {
      return "a live learner never got a published fragment";
    }
  }
  return invariants_.check_end();
}

// Before the end, long after the last fault: everybody is back and rounds go on.
std::string World::verdict() const {
  for (const LearnerView& view : machine_.learners()) {
    if (view.state == LearnerState::lost || view.state == LearnerState::vacant ||
        view.state == LearnerState::joining) {
      return "a learner is still lost, vacant or joining";
    }
  }
  if (invariants_.merges() <= merges_when_settled_) return "rounds do not go on";
  return check_leases();
}

void World::tell(Nanoseconds now, const Event& event) {
  Recorded& recorded = record_.emplace_back(Recorded{now, event, {}});
  std::vector<int> retired;  // islands
  for (int number = 0; number < static_cast<int>(islands_.size()); ++number) {
    const int learner = islands_[number].learner;
    if (learner >= 0 && machine_.learners()[learner].state == LearnerState::retired) {
      retired.push_back(number);
    }
  }
  machine_.handle(now, event, recorded.actions);
  // A retired learner's id that is wanted again ends its last life for good.
  for (const int number : retired) {
    const int learner = islands_[number].learner;
    if (machine_.learners()[learner].state != LearnerState::retired) {
      islands_[number].expelled = true;
    }
  }
  broken_ = invariants_.check(now, event, recorded.actions);
  if (now < plan_.calm + (plan_.end - plan_.calm) / 2) merges_when_settled_ = invariants_.merges();
  carry_out(recorded.actions);
}

void World::carry_out(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    if (const auto* assign = std::get_if<Assign>(&action)) {
      islands_[assign->island].expelled = false;
      send_down(assign->island, action);
    } else if (const auto* refresh = std::get_if<Refresh>(&action)) {
      send_down(machine_.learners()[refresh->learner].island, action);
    } else if (const auto* lease = std::get_if<Lease>(&action)) {
      send_down(machine_.learners()[lease->learner].island, action);
    } else if (const auto* ask = std::get_if<Ask>(&action)) {
      send_down(machine_.learners()[ask->learner].island, action);
    } else if (const auto* merge = std::get_if<Merge>(&action)) {
      const double seconds = 0.001 + 0.05 * random_.uniform();
      push({now_ + from_seconds(seconds),
            0,
            Item::Kind::to_machine,
            0,
            0,
            Merged{merge->round, seconds},
            {}});
    } else if (std::holds_alternative<Publish>(action) || std::holds_alternative<Pause>(action)) {
      for (const LearnerView& view : machine_.learners()) {
        if (view.island >= 0) send_down(view.island, action);
      }
    } else if (const auto* expel = std::get_if<Expel>(&action)) {
      islands_[expel->island].expelled = true;
      send_down(expel->island, action);
    } else if (const auto* retire = std::get_if<Retire>(&action)) {
      send_down(retire->island, action);
    } else if (const auto* refill = std::get_if<Refill>(&action)) {
      for (int i = 0; i < refill->islands; ++i) {
        boot(static_cast<int>(islands_.size()), now_ + from_seconds(0.2 + random_.uniform()));
      }
    } else if (std::holds_alternative<Finish>(action)) {
      finished_ = true;
    }
  }
}

Nanoseconds World::delay(Random& random) const {
  return 1 + static_cast<Nanoseconds>(random.uniform() * static_cast<double>(plan_.longest_delay));
}

void World::send_down(int number, const Action& action) {
  Island& island = islands_[number];
  if (island.dead) return;
  island.last_arrival =
      std::max({island.last_arrival, std::max(now_, island.cut_until) + delay(random_)});
  Down down{action, {}};
  if (std::holds_alternative<Refresh>(action)) down.versions = machine_.versions();
  const bool is_data =
      std::holds_alternative<Refresh>(action) || std::holds_alternative<Publish>(action);
  const Nanoseconds arrival = island.last_arrival + (is_data ? plan_.data_delay : 0);
  push({arrival, 0, Item::Kind::to_island, number, 0, {}, std::move(down)});
}

void World::say_ready(int number) {
  Island& island = islands_[number];
  if (island.guest) {
    send_up(island, GuestReady{number});
  } else {
    send_up(island, IslandReady{number});
  }
}

void World::send_up(Island& island, const Event& event) {
  Nanoseconds arrival = std::max(now_, island.cut_until) + delay(island.random);
  const bool control =
      std::holds_alternative<IslandReady>(event) || std::holds_alternative<GuestReady>(event);
  if (!plan_.reorder || control) arrival = std::max(arrival, island.last_sent);
  arrival = std::max(arrival, island.last_lease);
  if (std::holds_alternative<LeaseFollowed>(event)) island.last_lease = arrival;
  island.last_sent = std::max(island.last_sent, arrival);
  push({arrival, 0, Item::Kind::to_machine, 0, 0, event, {}});
  if (island.duplicates > 0 && !control) {
    --island.duplicates;
    push({arrival + from_seconds(3 * island.random.uniform()),
          0,
          Item::Kind::to_machine,
          0,
          0,
          event,
          {}});
  }
}

void World::boot(int number, Nanoseconds at) {
  if (number >= static_cast<int>(islands_.size())) islands_.resize(number + 1);
  Island& island = islands_[number];
  island.random = Random(mix_bits(plan_.seed * 1000 + number));
  island.slowness = 1 + plan_.spread * island.random.uniform();
  push({at, 0, Item::Kind::boot, number, 0, {}, {}});
}

void World::receive(int number, const Down& down) {
  Island& island = islands_[number];
  if (island.dead) return;
  const int fragments = plan_.settings.fragments;
  if (const auto* assign = std::get_if<Assign>(&down.action)) {
    island.learner = assign->learner;
    island.incarnation = assign->incarnation;
    ++island.epoch;
    island.tokens = assign->tokens;
    island.stepping = island.paused = false;
    island.norm_factor = 1;
    island.loss = 1;
    island.asks.clear();
    island.shards.clear();
    island.lease.reset();
    island.held.assign(fragments, -1);
    island.next.assign(fragments, -1);
    island.steps.assign(fragments, 0);
    island.highest_loss.assign(fragments, 0);
    island.takes_all_anew = false;
    heartbeat(number);
  } else if (const auto* refresh = std::get_if<Refresh>(&down.action)) {
    if (refresh->incarnation != island.incarnation || island.learner < 0) return;
    for (int p = 0; p < fragments; ++p) island.next[p] = std::max(island.next[p], down.versions[p]);
    island.takes_all_anew = true;
    island.norm_factor = 1;
    island.loss = 1;
  } else if (const auto* lease = std::get_if<Lease>(&down.action)) {
    if (lease->incarnation == island.incarnation && lease->learner == island.learner) {
      island.lease = *lease;
    }
  } else if (const auto* ask = std::get_if<Ask>(&down.action)) {
    if (ask->incarnation == island.incarnation && ask->learner == island.learner) {
      island.asks.push_back(*ask);
    }
  } else if (const auto* publish = std::get_if<Publish>(&down.action)) {
    if (island.learner < 0) return;
    island.next[publish->fragment] = std::max(island.next[publish->fragment], publish->version);
  } else if (std::holds_alternative<Pause>(down.action)) {
    island.paused = true;
  } else {  // Expel, Retire
    island.learner = -1;
    ++island.epoch;
    say_ready(number);
    return;
  }
  if (island.learner < 0) return;
  if (!island.stepping || island.paused) {
    install(island);
    follow(island);
    answer(island);
  }
  if (!island.stepping) start_stepping(number);
}

void World::start_stepping(int number) {
  Island& island = islands_[number];
  if (*std::min_element(island.held.begin(), island.held.end()) < 0) return;
  if (!plan_.settings.shards.empty() && island.shards.empty()) return;
  island.stepping = true;
  report(island);
  schedule_step(number);
}

// Takes up a lease between two steps.
void World::follow(Island& island) {
  if (!island.lease) return;
  Leases::Held now;
  for (std::size_t i = 0; i < island.lease->shards.size(); ++i) {
    const int shard = island.lease->shards[i];
    const auto kept = std::find_if(island.shards.begin(), island.shards.end(),
                                   [&](const auto& at) { return at.shard == shard; });
    now.push_back(kept != island.shards.end() ? *kept
                                              : data::ShardCursor{shard, island.lease->cursors[i]});
  }
  island.shards = std::move(now);
  send_up(island,
          LeaseFollowed{island.learner, island.incarnation, island.lease->number, island.tokens});
  island.lease.reset();
  check_shards();
}

// No two islands whose lives the machine counts train on one shard.
void World::check_shards() {
  std::vector<int> seen;
  for (const Island& island : islands_) {
    if (island.dead || island.learner < 0 || island.expelled) continue;
    if (machine_.learners()[island.learner].incarnation != island.incarnation) continue;
    for (const auto& at : island.shards) seen.push_back(at.shard);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end() && broken_.empty()) {
    broken_ = "two islands train on one data shard";
  }
}

// Before the end, long after the last fault: every shard is trained by someone, shared out evenly,
// and the machine knows how far each is.
std::string World::check_leases() const {
  const Settings& settings = plan_.settings;
  if (settings.shards.empty()) return {};
  const Leases& leases = machine_.leases()[0];
  if (!leases.free().empty()) return "a data shard is left out";
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::size_t most = 0;
  for (std::size_t learner = 0; learner < machine_.learners().size(); ++learner) {
    const LearnerView& view = machine_.learners()[learner];
    const Leases::Tenure& tenure = leases.tenures()[learner];
    if (view.state == LearnerState::retired) continue;
    if (tenure.offered) return "a lease is not followed";
    least = std::min(least, tenure.held.size());
    most = std::max(most, tenure.held.size());
    const Island& island = islands_[view.island];
    if (island.dead || island.incarnation != view.incarnation) continue;
    Leases::Held held = tenure.held;
    const data::Shards order(settings.windows[0], leases.shards());
    order.advance(held, (island.tokens - tenure.since) / settings.sequence_tokens);
    if (held != island.shards) return "a learner is elsewhere in its data than the machine knows";
  }
  if (most > least + 1) return "data shards are not shared out evenly";
  return {};
}

void World::schedule_step(int number) {
  Island& island = islands_[number];
  const double seconds =
      plan_.step_seconds * island.slowness * (0.9 + 0.2 * island.random.uniform());
  push({std::max(now_, island.frozen_until) + from_seconds(seconds),
        0,
        Item::Kind::step,
        number,
        island.epoch,
        {},
        {}});
}

void World::step(int number) {
  Island& island = islands_[number];
  if (island.dead || island.paused) return;
  if (now_ < island.frozen_until) {
    schedule_step(number);
    return;
  }
  if (!plan_.settings.shards.empty()) {
    const std::int64_t batch = plan_.settings.batch_tokens / plan_.settings.sequence_tokens;
    const data::Shards order(plan_.settings.windows[0], machine_.leases()[0].shards());
    for (std::int64_t i = 0; i < batch; ++i) ++island.shards[order.next(island.shards)].cursor;
  }
  for (std::int64_t& steps : island.steps) ++steps;
  for (double& highest : island.highest_loss) {
    if (island.loss > highest || std::isnan(island.loss)) highest = island.loss;
  }
  island.tokens += plan_.settings.batch_tokens;
  install(island);
  follow(island);
  answer(island);
  report(island);
  if (!plan_.settings.shards.empty() && island.shards.empty()) {
    island.stepping = false;
    return;
  }
  schedule_step(number);
}

void World::install(Island& island) {
  for (std::size_t p = 0; p < island.held.size(); ++p) {
    if (island.next[p] <= island.held[p] && !island.takes_all_anew) continue;
    island.held[p] = island.next[p];
    island.steps[p] = 0;
    island.highest_loss[p] = 0;
  }
  island.takes_all_anew = false;
}

void World::answer(Island& island) {
  std::erase_if(island.asks, [&](const Ask& ask) {
    const std::int64_t steps = island.steps[ask.fragment];
    if (steps == 0 && !island.paused) return false;
    const double norm = (0.5 + island.random.uniform()) * island.norm_factor *
                        static_cast<double>(std::max<std::int64_t>(steps, 1));
    send_up(island, Delivery{island.learner, island.incarnation, ask.round, ask.fragment,
                             island.held[ask.fragment], steps, steps * plan_.settings.batch_tokens,
                             island.tokens, island.highest_loss[ask.fragment], norm});
    return true;
  });
}

void World::report(Island& island) {
  island.last_report = now_;
  send_up(island,
          Report{island.learner, island.incarnation, island.tokens / plan_.settings.batch_tokens,
                 island.tokens, island.stepping ? plan_.step_seconds * island.slowness : 0,
                 island.loss, island.held});
}

void World::heartbeat(int number) {
  Island& island = islands_[number];
  if (island.dead) return;
  const Nanoseconds every = plan_.settings.suspect_after / 3;
  if (now_ >= island.frozen_until && now_ - island.last_report >= every) report(island);
  push({std::max(now_ + every, island.frozen_until),
        0,
        Item::Kind::heartbeat,
        number,
        island.epoch,
        {},
        {}});
}

void World::inject(const Fault& fault) {
  if (fault.kind == Fault::Kind::stall) {
    stalled_until_ = now_ + from_seconds(fault.seconds);
    return;
  }
  if (fault.kind == Fault::Kind::replace) {
    std::erase_if(queue_, [](const Item& item) {
      return std::holds_alternative<Delivery>(item.event) ||
             std::holds_alternative<Merged>(item.event);
    });
    std::make_heap(queue_.begin(), queue_.end(),
                   [](const Item& a, const Item& b) { return later(a, b); });
    tell(now_, SyncerReplaced{2});
    return;
  }
  if (fault.kind == Fault::Kind::scale) {
    push({now_, 0, Item::Kind::to_machine, 0, 0, ScaleRequested{fault.amount}, {}});
    return;
  }
  if (fault.kind == Fault::Kind::guest) {
    const auto number = static_cast<int>(islands_.size());
    boot(number, now_);
    islands_[number].guest = true;
    return;
  }
  const int number = fault.island % static_cast<int>(islands_.size());
  Island& island = islands_[number];
  if (island.dead) return;
  const Nanoseconds until = now_ + from_seconds(fault.seconds);
  switch (fault.kind) {
    case Fault::Kind::kill:
      island.dead = true;
      push({until, 0, Item::Kind::to_machine, 0, 0, IslandLost{number, "killed"}, {}});
      break;
    case Fault::Kind::cut:
      island.cut_until = until;
      break;
    case Fault::Kind::freeze:
      island.frozen_until = until;
      break;
    case Fault::Kind::slow:
      island.slowness = fault.amount;
      break;
    case Fault::Kind::duplicate:
      island.duplicates += fault.amount;
      break;
    case Fault::Kind::poison:
      island.norm_factor = std::nan("");
      break;
    case Fault::Kind::wild:
      island.norm_factor = kWild;
      break;
    case Fault::Kind::diverge:
      island.loss = fault.amount % 2 == 0 ? std::nan("") : kUnsoundLoss;
      break;
    default:
      break;
  }
}

Plan make_plan(std::uint64_t seed) {
  Random random(mix_bits(seed));
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.uniform();
  };
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  Plan plan{};
  plan.seed = seed;
  Settings& settings = plan.settings;
  settings.learners = pick(1, 6);
  settings.fragments = pick(1, 8);
  settings.interval = settings.fragments * between(0.5, 3);
  settings.overlap = between(0.5, 4);
  settings.quorum = pick(0, 2) > 0 ? 1 : pick(1, settings.learners + 1);
  settings.grace = between(0, 1);
  settings.grace_cap = from_seconds(between(0.05, 5));
  settings.suspect_after = from_seconds(between(0.4, 1.5));
  settings.outlier = pick(0, 4) > 0 ? 10 : 0;
  settings.max_open_rounds = pick(1, 3);
  settings.spares = pick(0, 2);
  settings.sequence_tokens = pick(1, 50);
  settings.batch_tokens = settings.sequence_tokens * pick(1, 20);
  if (pick(0, 4) > 0) settings.shards = {pick(7, 70)};
  settings.checkpoint_rounds = pick(1, 20);
  settings.loss_limit = kUnsoundLoss - 1;
  plan.step_seconds = between(0.1, 0.4);
  plan.spread = pick(0, 1) * between(0, 1.5);
  plan.longest_delay = from_seconds(pick(0, 3) > 0 ? between(0.001, 0.02) : between(0.1, 1));
  // A joiner's first report takes two messages.
  settings.expel_after =
      settings.suspect_after + from_seconds(between(0.1, 2.5)) + 4 * plan.longest_delay;
  plan.reorder = pick(0, 1) == 1;
  plan.calm = from_seconds(between(2, 8));
  plan.end = plan.calm + from_seconds(between(12, 14) + 24 * plan.step_seconds);
  if (pick(0, 2) == 0) {
    const double steps = between(1, 2) * 1e-9 * static_cast<double>(plan.calm) / plan.step_seconds;
    settings.token_budget =
        static_cast<std::int64_t>(steps) * settings.learners * settings.batch_tokens;
  }
  if (pick(0, 4) == 0) {
    plan.restored.round = pick(1, 100);
    const int learners = pick(1, 7);
    if (!settings.shards.empty()) {
      const int shards = pick(0, 1) > 0 ? settings.shards[0] : pick(7, 70);
      for (int i = 0; i < shards; ++i) plan.restored.shards.push_back(pick(0, 200));
    }
    for (int p = 0; p < settings.fragments; ++p) plan.restored.versions.push_back(pick(0, 9));
    for (int i = 0; i < learners; ++i) plan.restored.incarnations.push_back(pick(0, 3));
    for (int i = 0; i < learners * settings.fragments; ++i) {
      plan.restored.merged_tokens.push_back(pick(0, 20) * settings.batch_tokens);
    }
  }
  const int shards = static_cast<int>(plan.restored.shards.size());
  if (!settings.shards.empty()) {
    settings.windows = {std::max(shards, settings.shards[0]) + pick(0, 100)};
  }
  const int faults = pick(0, 10);
  for (int i = 0; i < faults; ++i) {
    Fault fault{};
    fault.time = from_seconds(between(0, 1e-9 * static_cast<double>(plan.calm)));
    fault.kind = static_cast<Fault::Kind>(std::max(pick(-4, 11), 0));  // a kill five times as often
    fault.island = pick(0, settings.learners + settings.spares + 1);
    fault.seconds = fault.kind == Fault::Kind::kill ? between(0, 1.5) : between(0, 5);
    const bool slow = fault.kind == Fault::Kind::slow;
    fault.amount =
        slow ? pick(1, 3) : (fault.kind == Fault::Kind::scale ? pick(1, 7) : pick(1, 20));
    plan.faults.push_back(fault);
  }
  std::sort(plan.faults.begin(), plan.faults.end(),
            [](const Fault& a, const Fault& b) { return a.time < b.time; });
  if (pick(0, 3) == 0) settings.checkpoint_after = from_seconds(between(0.1, 3));
  // Whoever is cut off for long trains alone meanwhile, and gives of it before fragments have come.
  if (pick(0, 7) == 0) {
    settings.expel_after += from_seconds(6);
    plan.data_delay = from_seconds(between(0, 2));
  }
  return plan;
}

std::string describe(const Plan& plan) {
  const Settings& s = plan.settings;
  std::ostringstream text;
  text << "seed " << plan.seed << ": M=" << s.learners << " P=" << s.fragments
       << " H=" << s.interval << " tau=" << s.overlap << " K=" << s.quorum << " gamma=" << s.grace
       << " cap=" << s.grace_cap / kMillisecond << "ms suspect=" << s.suspect_after / kMillisecond
       << "ms expel=" << s.expel_after / kMillisecond << "ms open=" << s.max_open_rounds
       << " spares=" << s.spares << " budget=" << s.token_budget << " save=" << s.checkpoint_rounds
       << " or " << s.checkpoint_after / kMillisecond << "ms"
       << " shards=" << (s.shards.empty() ? 0 : s.shards[0]) << " step=" << plan.step_seconds
       << "s end=" << plan.end / kMillisecond << "ms\n";
  for (const Fault& fault : plan.faults) {
    text << "  " << fault.time / kMillisecond << "ms " << name_of(fault.kind) << " island "
         << fault.island << " for " << fault.seconds << "s x " << fault.amount << "\n";
  }
  return text.str();
}

}  // namespace archipelago::sync
