#include "simulate/decoupled.h"

#include <algorithm>
#include <cmath>

#include "simulate/event_queue.h"
#include "simulate/site.h"
#include "simulate/summary.h"
#include "sync/machine.h"

namespace archipelago::simulate {
namespace {

// A learner's copy of a fragment: what it holds, and what is on its way to it.
struct Copy {
  std::int32_t version = -1;
  std::int64_t steps = 0;  // of the site, when it was installed
  std::int64_t tokens = 0;
  std::int32_t next_version = -1;
  Nanoseconds next_time = 0;  // the end of a step at which the next version is installed
  std::int64_t next_steps = 0;
  std::int64_t next_tokens = 0;
};

struct Player {
  int site = -1;
  int incarnation = -1;
  std::int64_t first_tokens = 0;  // of the learner when this life began
  std::int64_t site_tokens = 0;   // of the site then
  std::int64_t site_steps = 0;
  std::vector<Copy> copies;
  Nanoseconds up_free = 0;  // when its link has sent what was given to it before
  Nanoseconds down_free = 0;
  std::vector<std::int64_t> given;  // by fragment: steps since its base that was last given
  std::int64_t contributions = 0;
};

class Driver {
 public:
  Driver(const Scenario& scenario, std::vector<Site> sites, std::uint64_t seed, Reports reports,
         const ActionObserver& observer);
  Outcome run();

 private:
  struct Item {
    enum class Kind { report, delivery, merged, ready, lost };
    Kind kind;
    int number;  // learner, or island
    int incarnation;
    Nanoseconds at;  // of a report: the end of the step it tells of
    sync::Delivery delivery;
  };
  void happen(const Item& item);
  void tell(const sync::Event& event);
  void carry_out();
  void do_action(const sync::Action& action);
  void assign(const sync::Assign& action);
  void ask(const sync::Ask& action);
  void merge(const sync::Merge& action);
  void publish(const sync::Publish& action);
  void schedule_report(int learner, Nanoseconds after, bool at_once = false);
  void report(const Item& item);
  void plan_death(int site);
  Nanoseconds after(Nanoseconds time, Nanoseconds by) const;
  Nanoseconds jitter(Site& site, Nanoseconds time);
  Outcome outcome();

  const Scenario& scenario_;
  Reports reports_;
  const ActionObserver& observer_;
  sync::Settings settings_;
  sync::Machine machine_;
  Random random_;
  std::vector<Site> first_sites_;  // the learners', as they were given
  std::vector<Site> sites_;
  std::vector<SiteLink> links_;  // of sites
  std::vector<int> island_of_site_;
  std::vector<int> site_of_island_;
  std::vector<Player> players_;
  EventQueue<Item> queue_;
  Nanoseconds now_ = 0;
  Nanoseconds end_;
  Nanoseconds tick_delay_;
  sync::Event report_event_;  // reused, with its memory
  std::vector<sync::Action> actions_;
  std::int64_t merges_ = 0;
  std::int64_t contributions_ = 0;
  double staleness_ = 0;
  std::int64_t transfers_ = 0;
};

sync::Settings settings_of(const Scenario& scenario) {
  sync::Settings settings;
  settings.learners = static_cast<int>(scenario.sync.learners);
  settings.fragments = static_cast<int>(scenario.sync.fragments);
  settings.interval = scenario.sync.interval;
  settings.overlap = scenario.sync.overlap;
  settings.quorum = static_cast<int>(scenario.sync.quorum);
  settings.grace = scenario.sync.grace;
  settings.grace_cap = to_nanoseconds(1e9);
  settings.suspect_after = to_nanoseconds(scenario.sync.suspect);
  settings.expel_after = to_nanoseconds(scenario.sync.expel);
  settings.outlier = 0;
  settings.spares = static_cast<int>(scenario.sync.spares);
  settings.batch_tokens = step_tokens_of(scenario, settings.learners);
  settings.checkpoint_rounds = 1LL << 60;
  return settings;
}

Driver::Driver(const Scenario& scenario, std::vector<Site> sites, std::uint64_t seed,
               Reports reports, const ActionObserver& observer)
    : scenario_(scenario),
      reports_(reports),
      observer_(observer),
      settings_(settings_of(scenario)),
      machine_(settings_),
      random_(mix_bits(seed ^ 0x51717ULL)),
      end_(to_nanoseconds(scenario.train.days * 86400)),
      tick_delay_(to_nanoseconds(scenario.sync.tick_delay)) {
  const int learners = settings_.learners;
  sites_ = std::move(sites);
  first_sites_.assign(sites_.begin(), sites_.begin() + learners);
  for (int number = 0; number < static_cast<int>(sites_.size()); ++number) {
    island_of_site_.push_back(number);
    site_of_island_.push_back(number);
    links_.push_back(site_link(scenario, number % learners));
    queue_.push(0, {Item::Kind::ready, number, 0, 0, {}});
    plan_death(number);
  }
  players_.resize(learners);
  report_event_ = sync::Report{};
}

Outcome Driver::run() {
  while (true) {
    std::optional<Nanoseconds> wakeup = machine_.next_wakeup();
    if (wakeup) *wakeup += tick_delay_;
    const bool tick = wakeup && (queue_.empty() || *wakeup < queue_.next_time());
    const Nanoseconds next = tick ? std::max(*wakeup, now_) : queue_.next_time();
    if (next > end_) break;
    now_ = next;
    if (tick) {
      tell(sync::Tick{});
    } else {
      happen(queue_.pop());
    }
  }
  return outcome();
}

void Driver::happen(const Item& item) {
  switch (item.kind) {
    case Item::Kind::report:
      report(item);
      break;
    case Item::Kind::delivery:
      tell(item.delivery);
      break;
    case Item::Kind::merged:
      tell(sync::Merged{item.delivery.round, scenario_.sync.merge_seconds});
      break;
    case Item::Kind::ready:
      tell(sync::IslandReady{item.number});
      break;
    case Item::Kind::lost: {
      // What stood on these chips comes back as an island of its own, once they are up again.
      const int site = item.number;
      const int island = island_of_site_[site];
      island_of_site_[site] = static_cast<int>(site_of_island_.size());
      site_of_island_.push_back(site);
      const Nanoseconds back = sites_[site].stretch_after(now_).begin;
      queue_.push(back, {Item::Kind::ready, island_of_site_[site], 0, 0, {}});
      plan_death(site);
      tell(sync::IslandLost{island, "failed"});
      break;
    }
  }
}

// Plans the loss of the site's island.
void Driver::plan_death(int site) {
  const Nanoseconds death = sites_[site].next_death(now_, end_);
  if (death <= end_) queue_.push(death, {Item::Kind::lost, site, 0, 0, {}});
}

void Driver::tell(const sync::Event& event) {
  actions_.clear();
  machine_.handle(now_, event, actions_);
  if (observer_) observer_(now_, event, actions_);
  for (const sync::Action& action : actions_) do_action(action);
}

void Driver::do_action(const sync::Action& action) {
  if (const auto* asked = std::get_if<sync::Ask>(&action)) {
    ask(*asked);
  } else if (const auto* merged = std::get_if<sync::Merge>(&action)) {
    merge(*merged);
  } else if (const auto* published = std::get_if<sync::Publish>(&action)) {
    publish(*published);
  } else if (const auto* assigned = std::get_if<sync::Assign>(&action)) {
    assign(*assigned);
  } else if (const auto* expelled = std::get_if<sync::Expel>(&action)) {
    // It hears of it when it is back from its stall.
    const int site = site_of_island_[expelled->island];
    const Nanoseconds back =
        std::max(sites_[site].stretch_after(now_).begin, now_) + links_[site].latency;
    queue_.push(back, {Item::Kind::ready, expelled->island, 0, 0, {}});
  }
}

// What comes after the end of the run is all the same; a sum of many times may be more than
// Nanoseconds hold.
Nanoseconds Driver::after(Nanoseconds time, Nanoseconds by) const {
  return time <= end_ && by <= end_ - time ? time + by : end_ + 1;
}

void Driver::assign(const sync::Assign& action) {
  Player& player = players_[action.learner];
  const bool again = player.incarnation >= 0;
  player.site = site_of_island_[action.island];
  player.incarnation = action.incarnation;
  player.first_tokens = action.tokens;
  player.up_free = player.down_free = now_;
  const SiteLink& link = links_[player.site];
  const Nanoseconds whole = link.fragment_time <= end_ / settings_.fragments
                                ? settings_.fragments * link.fragment_time
                                : end_ + 1;
  Nanoseconds begin = after(now_ + link.latency, whole);
  if (again) begin = after(begin, to_nanoseconds(scenario_.restart.join));
  const Boundary done = sites_[player.site].done_by(begin);
  player.site_tokens = done.tokens;
  player.site_steps = done.steps;
  player.copies.assign(settings_.fragments, Copy{});
  player.given.assign(settings_.fragments, 0);
  for (int p = 0; p < settings_.fragments; ++p) {
    player.copies[p].version = player.copies[p].next_version = machine_.versions()[p];
    player.copies[p].steps = player.copies[p].next_steps = done.steps;
    player.copies[p].tokens = player.copies[p].next_tokens = done.tokens;
  }
  schedule_report(action.learner, begin, true);
}

// The report that follows the one of the step that ended at `after`.
void Driver::schedule_report(int learner, Nanoseconds after, bool at_once) {
  const Player& player = players_[learner];
  Site& site = sites_[player.site];
  const std::optional<Boundary> next = site.boundary_after(after);
  if (!next) return;
  Nanoseconds at = next->time;
  if (reports_ == Reports::needed && !at_once) {
    const Stretch& stretch = site.stretch_after(at - 1);
    if (after >= stretch.begin + stretch.step) {  // else the first after a stall is told at once
      const Nanoseconds patience = settings_.suspect_after / 2;
      const std::int64_t steps = std::max<Nanoseconds>(patience / stretch.step, 1);
      at = std::min(std::max(at, after + steps * stretch.step), site.last_boundary(stretch));
    }
  }
  queue_.push(at + links_[player.site].latency,
              {Item::Kind::report, learner, player.incarnation, at, {}});
}

void Driver::report(const Item& item) {
  const Player& player = players_[item.number];
  if (player.incarnation != item.incarnation) return;
  Site& site = sites_[player.site];
  const Boundary done = site.done_by(item.at);
  auto& event = std::get<sync::Report>(report_event_);
  event.learner = item.number;
  event.incarnation = item.incarnation;
  event.tokens = player.first_tokens + done.tokens - player.site_tokens;
  event.step = event.tokens / settings_.batch_tokens;
  const Stretch& stretch = site.stretch_after(item.at - 1);
  event.step_seconds = static_cast<double>(stretch.step) * 1e-9;
  event.loss = 0;
  event.held.resize(settings_.fragments);
  for (int p = 0; p < settings_.fragments; ++p) {
    const Copy& copy = player.copies[p];
    event.held[p] = copy.next_time <= item.at ? copy.next_version : copy.version;
  }
  schedule_report(item.number, item.at);
  tell(report_event_);
}

// Steps' ends scatter; only what is sent at one shows it.
Nanoseconds Driver::jitter(Site& site, Nanoseconds time) {
  if (scenario_.train.jitter == 0) return 0;
  return to_nanoseconds(std::abs(portable_normal(random_)) * scenario_.train.jitter *
                        static_cast<double>(site.stretch_after(time - 1).step) * 1e-9);
}

void Driver::ask(const sync::Ask& action) {
  Player& player = players_[action.learner];
  Site& site = sites_[player.site];
  const SiteLink& link = links_[player.site];
  Copy& copy = player.copies[action.fragment];
  std::optional<Boundary> end = site.boundary_after(now_ + link.latency);
  if (end && copy.next_time <= end->time) {
    copy.version = copy.next_version;
    copy.steps = copy.next_steps;
    copy.tokens = copy.next_tokens;
    // At least one step since it was installed.
    if (end->steps <= copy.steps) end = site.boundary_after(end->time);
  }
  if (!end) return;
  const Nanoseconds sent =
      after(std::max(end->time + jitter(site, end->time), player.up_free), link.fragment_time);
  player.up_free = sent;
  ++transfers_;
  player.given[action.fragment] = end->steps - copy.steps;
  Item item{Item::Kind::delivery, action.learner, action.incarnation, 0, {}};
  item.delivery = {action.learner,
                   action.incarnation,
                   action.round,
                   action.fragment,
                   copy.version,
                   end->steps - copy.steps,
                   end->tokens - copy.tokens,
                   player.first_tokens + end->tokens - player.site_tokens,
                   0,
                   1};
  queue_.push(sent + link.latency, item);
}

void Driver::merge(const sync::Merge& action) {
  ++merges_;
  for (const sync::Contribution& part : action.contributions) {
    Player& player = players_[part.learner];
    ++player.contributions;
    ++contributions_;
    staleness_ += static_cast<double>(player.given[action.fragment]);
  }
  Item item{Item::Kind::merged, 0, 0, 0, {}};
  item.delivery.round = action.round;
  queue_.push(now_ + to_nanoseconds(scenario_.sync.merge_seconds), item);
}

void Driver::publish(const sync::Publish& action) {
  for (Player& player : players_) {
    if (player.site < 0) continue;
    const SiteLink& link = links_[player.site];
    const Nanoseconds arrived = after(std::max(now_, player.down_free), link.fragment_time);
    player.down_free = arrived;
    ++transfers_;
    Site& site = sites_[player.site];
    const std::optional<Boundary> end = site.boundary_after(arrived + link.latency);
    if (!end) continue;
    Copy& copy = player.copies[action.fragment];
    copy.version = copy.next_version;
    copy.steps = copy.next_steps;
    copy.tokens = copy.next_tokens;
    copy.next_version = action.version;
    copy.next_time = end->time;
    copy.next_steps = end->steps;
    copy.next_tokens = end->tokens;
  }
  if (action.round % 1024 == 0) {
    for (Site& site : sites_) site.forget(now_ - to_nanoseconds(1));
  }
}

Outcome Driver::outcome() {
  std::int64_t tokens = 0;
  Outcome result;
  double most = 0;
  double fewest = 1e300;
  for (std::size_t learner = 0; learner < players_.size(); ++learner) {
    const Player& player = players_[learner];
    const double given = static_cast<double>(player.contributions);
    result.contributions.push_back(given);
    most = std::max(most, given);
    fewest = std::min(fewest, given);
    if (machine_.learners()[learner].island < 0) {
      tokens += machine_.learners()[learner].tokens;
    } else {
      tokens +=
          player.first_tokens +
          std::max<std::int64_t>(sites_[player.site].done_by(end_).tokens - player.site_tokens, 0);
    }
  }
  const SiteTimes times = times_of(first_sites_, end_);
  set_rates(scenario_, times, static_cast<double>(tokens), result);
  const double seconds = static_cast<double>(end_) * 1e-9;
  result.rounds = static_cast<double>(machine_.rounds());
  result.losses = machine_.losses();
  if (merges_ > 0) {
    const double contributions = static_cast<double>(contributions_);
    result.contributors = contributions / static_cast<double>(merges_);
    result.staleness = staleness_ / contributions;
    result.spread = (most - fewest) * static_cast<double>(players_.size()) / contributions;
  }
  result.bytes = static_cast<double>(transfers_) * scenario_.model.parameters *
                 scenario_.model.bits / 8 / settings_.fragments;
  result.gbps = result.bytes * 8e-9 / seconds / settings_.learners;
  return result;
}

}  // namespace

Outcome simulate_decoupled(const Scenario& scenario, std::uint64_t seed, Reports reports,
                           const ActionObserver& observer) {
  std::vector<Site> sites = make_sites(scenario, static_cast<int>(scenario.sync.learners),
                                       static_cast<int>(scenario.sync.spares), true, seed);
  return Driver(scenario, std::move(sites), seed, reports, observer).run();
}

}  // namespace archipelago::simulate
