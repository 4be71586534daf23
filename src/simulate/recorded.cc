#include "simulate/recorded.h"

#include <algorithm>
#include <optional>

#include "simulate/event_queue.h"
#include "sync/machine.h"

namespace archipelago::simulate {
namespace {

// How many times as long a run may take that came to its end.
constexpr Nanoseconds kLonger = 2;
// What arrives within one turn of the syncer is seen before a time limit that came in it.
constexpr Nanoseconds kTurn = 300'000;
constexpr double kStepSeconds = 0.1;  // of a life that never told any

struct Copy {
  std::int32_t version = -1;
  std::int64_t tokens = 0;  // of the learner when it was installed
  std::int32_t next_version = -1;
  Nanoseconds next_time = 0;  // when that is installed
};

struct Player {
  int life = -1;    // of the recorded ones
  int called = -1;  // the newest life that is to come
  int island = -1;
  int incarnation = -1;
  std::int64_t first_tokens = 0;
  std::vector<Copy> copies;
};

class Driver {
 public:
  explicit Driver(const Recorded& recorded);
  RunOutcome run();

 private:
  struct Item {
    enum class Kind { ready, report, lost, answer, merged, request };
    Kind kind;
    int learner;
    int life;
    std::size_t index = 0;     // of a report or request
    sync::Ask ask{};           // of an answer; of a merge, its round
    std::int32_t version = 0;  // of the fragment when it was asked for
    double norm = 0;
  };

  void push_life(int learner, int life);
  void happen(const Item& item);
  void report(const Item& item);
  void tell(const sync::Event& event);
  void do_action(const sync::Action& action);
  void assign(const sync::Assign& action);
  void ask(const sync::Ask& action);
  void answer(const Item& item);
  void publish(const sync::Publish& action);
  const RecordedLife& life_of(int learner) const;
  std::int64_t tokens_at(int learner, Nanoseconds time) const;
  void install(Copy& copy, int learner, Nanoseconds time) const;

  const Recorded& recorded_;
  sync::Settings settings_;
  sync::Machine machine_;
  std::int64_t tokens_before_;
  std::vector<Player> players_;
  std::vector<int> learner_of_island_;
  EventQueue<Item> queue_;
  Nanoseconds now_ = 0;
  std::optional<Nanoseconds> paused_;
  RunOutcome outcome_;
};

sync::Settings settings_of(const Recorded& recorded) {
  sync::Settings settings = recorded.start.settings;
  settings.spares = 0;  // the recorded lives are all that there are
  return settings;
}

Driver::Driver(const Recorded& recorded)
    : recorded_(recorded),
      settings_(settings_of(recorded)),
      machine_(settings_, recorded.start.restored),
      tokens_before_(machine_.total_tokens()),
      players_(recorded.learners.size()) {
  for (int learner = 0; learner < std::ssize(players_); ++learner) {
    push_life(learner, 0);
  }
  for (std::size_t i = 0; i < recorded.requests.size(); ++i) {
    queue_.push(recorded.requests[i].first, {Item::Kind::request, -1, -1, i});
  }
  outcome_.contributions.resize(players_.size());
}

void Driver::push_life(int learner, int life) {
  if (life <= players_[learner].called || life >= std::ssize(recorded_.learners[learner].lives)) {
    return;
  }
  players_[learner].called = life;
  const RecordedLife& recorded = recorded_.learners[learner].lives[life];
  queue_.push(std::max(recorded.assigned, now_), {Item::Kind::ready, learner, life});
}

RunOutcome Driver::run() {
  while (!machine_.finished()) {
    const std::optional<Nanoseconds> due = machine_.next_wakeup();
    if (!due && queue_.empty()) break;
    // A syncer that sees a time limit late has been held up, and sees all else of that time late
    // too.
    const Nanoseconds seen = due ? *due + std::max(recorded_.ticks.at(*due), kTurn) : 0;
    const bool tick = due && (queue_.empty() || seen < queue_.next_time());
    const bool held_up = !tick && due && queue_.next_time() >= *due;
    const Nanoseconds next = tick || held_up ? seen : queue_.next_time();
    if (next > (recorded_.finished ? kLonger : 1) * recorded_.end) break;
    now_ = std::max(now_, next);
    if (tick) {
      tell(sync::Tick{});
    } else {
      happen(queue_.pop());
    }
  }
  outcome_.end = now_;
  outcome_.tokens = machine_.total_tokens() - tokens_before_;
  outcome_.rounds = machine_.rounds() - recorded_.start.restored.round;
  outcome_.losses = machine_.losses();
  return outcome_;
}

const RecordedLife& Driver::life_of(int learner) const {
  return recorded_.learners[learner].lives[players_[learner].life];
}

void Driver::happen(const Item& item) {
  switch (item.kind) {
    case Item::Kind::ready: {
      const int island = static_cast<int>(learner_of_island_.size()) + settings_.learners;
      // The first life of a learner is at home.
      const bool home = item.life == 0;
      if (!home) learner_of_island_.push_back(item.learner);
      players_[item.learner].life = item.life;
      tell(sync::IslandReady{home ? item.learner : island});
      break;
    }
    case Item::Kind::report:
      report(item);
      break;
    case Item::Kind::lost:
      if (players_[item.learner].life != item.life) break;
      tell(sync::IslandLost{players_[item.learner].island, "failed"});
      push_life(item.learner, item.life + 1);
      break;
    case Item::Kind::answer:
      answer(item);
      break;
    case Item::Kind::merged:
      tell(sync::Merged{item.ask.round, 1e-9 * static_cast<double>(recorded_.merges.at(now_))});
      break;
    case Item::Kind::request:
      tell(recorded_.requests[item.index].second);
      break;
  }
}

void Driver::tell(const sync::Event& event) {
  std::vector<sync::Action> actions;
  machine_.handle(now_, event, actions);
  for (const sync::Action& action : actions) do_action(action);
  const auto& views = machine_.learners();
  const auto is_active = [](const sync::LearnerView& view) {
    return view.state == sync::LearnerState::active;
  };
  if (outcome_.begin == 0 && std::any_of(views.begin(), views.end(), is_active)) {
    outcome_.begin = now_;
  }
}

void Driver::do_action(const sync::Action& action) {
  if (const auto* assigned = std::get_if<sync::Assign>(&action)) {
    assign(*assigned);
  } else if (const auto* asked = std::get_if<sync::Ask>(&action)) {
    ask(*asked);
  } else if (const auto* merged = std::get_if<sync::Merge>(&action)) {
    ++outcome_.merges;
    for (const sync::Contribution& part : merged->contributions) {
      ++outcome_.contributions[part.learner];
    }
    queue_.push(now_ + recorded_.merges.at(now_),
                {Item::Kind::merged, -1, -1, 0, sync::Ask{-1, -1, merged->round, 0}});
  } else if (const auto* published = std::get_if<sync::Publish>(&action)) {
    publish(*published);
  } else if (const auto* expelled = std::get_if<sync::Expel>(&action)) {
    push_life(expelled->learner, players_[expelled->learner].life + 1);
  } else if (std::holds_alternative<sync::Pause>(action)) {
    paused_ = now_;
  }
}

void Driver::assign(const sync::Assign& action) {
  Player& player = players_[action.learner];
  player.island = action.island;
  player.incarnation = action.incarnation;
  player.first_tokens = action.tokens;
  const RecordedLife& life = life_of(action.learner);
  player.copies.assign(settings_.fragments, Copy{});
  for (int p = 0; p < settings_.fragments; ++p) {
    player.copies[p].next_version = machine_.versions()[p];
    player.copies[p].next_time = life.active;
  }
  for (std::size_t i = 0; i < life.reports.size(); ++i) {
    queue_.push(life.reports[i].time, {Item::Kind::report, action.learner, player.life, i});
  }
  if (life.lost >= 0) queue_.push(life.lost, {Item::Kind::lost, action.learner, player.life});
}

// By the recorded reports, between which steps are even; none are made after Pause.
std::int64_t Driver::tokens_at(int learner, Nanoseconds time) const {
  const RecordedLife& life = life_of(learner);
  if (paused_) time = std::min(time, *paused_);
  const auto after = std::upper_bound(
      life.reports.begin(), life.reports.end(), time,
      [](Nanoseconds moment, const RecordedReport& report) { return moment < report.time; });
  if (after == life.reports.begin()) return players_[learner].first_tokens;
  const RecordedReport& before = *std::prev(after);
  std::int64_t tokens = before.tokens - life.first_tokens;
  if (after != life.reports.end()) {
    const double share =
        static_cast<double>(time - before.time) / static_cast<double>(after->time - before.time);
    const auto steps = static_cast<std::int64_t>(
        share * static_cast<double>((after->tokens - before.tokens) / settings_.batch_tokens));
    tokens += steps * settings_.batch_tokens;
  } else if (life.lost < 0 && before.step_seconds > 0) {
    const double steps = 1e-9 * static_cast<double>(time - before.time) / before.step_seconds;
    tokens += static_cast<std::int64_t>(steps) * settings_.batch_tokens;
  }
  return players_[learner].first_tokens + tokens;
}

void Driver::install(Copy& copy, int learner, Nanoseconds time) const {
  if (copy.next_version == copy.version || copy.next_time > time) return;
  copy.version = copy.next_version;
  copy.tokens = tokens_at(learner, copy.next_time);
}

void Driver::report(const Item& item) {
  Player& player = players_[item.learner];
  if (player.life != item.life || player.incarnation < 0) return;
  const RecordedReport& recorded = life_of(item.learner).reports[item.index];
  sync::Report event{item.learner,          player.incarnation, 0, tokens_at(item.learner, now_),
                     recorded.step_seconds, recorded.loss,      {}};
  event.step = event.tokens / settings_.batch_tokens;
  for (Copy& copy : player.copies) {
    install(copy, item.learner, now_);
    event.held.push_back(copy.version);
  }
  const RecordedLife& life = life_of(item.learner);
  if (item.index + 1 == life.reports.size() && life.lost < 0) {
    // The recorded run was over then; this one goes on.
    const double step = recorded.step_seconds > 0 ? recorded.step_seconds : kStepSeconds;
    queue_.push(now_ + static_cast<Nanoseconds>(1e9 * step), item);
  }
  tell(event);
}

void Driver::ask(const sync::Ask& action) {
  const Response response = recorded_.learners[action.learner].responses.at(now_);
  queue_.push(now_ + response.delay,
              {Item::Kind::answer, action.learner, players_[action.learner].life, 0, action,
               machine_.versions()[action.fragment], response.norm});
}

void Driver::answer(const Item& item) {
  const sync::Ask& ask = item.ask;
  Player& player = players_[item.learner];
  const RecordedLife& life = life_of(item.learner);
  if (player.life != item.life || (life.lost >= 0 && now_ > life.lost)) return;
  Copy& copy = player.copies[ask.fragment];
  install(copy, item.learner, now_);
  if (copy.version > item.version) return;  // it knows that the round is over
  const std::int64_t at = tokens_at(item.learner, now_);
  // An answer has at least a step in it while there are steps.
  const std::int64_t least = paused_ ? 0 : settings_.batch_tokens;
  const std::int64_t since = std::max(at - copy.tokens, least);
  const std::int64_t steps = since / settings_.batch_tokens;
  const double norm = item.norm * static_cast<double>(std::max<std::int64_t>(steps, 1));
  tell(sync::Delivery{ask.learner, ask.incarnation, ask.round, ask.fragment, copy.version, steps,
                      since, at, 0, norm});
}

void Driver::publish(const sync::Publish& action) {
  for (int learner = 0; learner < std::ssize(players_); ++learner) {
    Player& player = players_[learner];
    if (player.incarnation < 0) continue;
    Copy& copy = player.copies[action.fragment];
    install(copy, learner, now_);
    const Nanoseconds joined = copy.version < 0 ? life_of(learner).active : 0;
    copy.next_version = action.version;
    copy.next_time = std::max(now_ + recorded_.learners[learner].installs.at(now_), joined);
  }
}

}  // namespace

RunOutcome run_again(const Recorded& recorded) { return Driver(recorded).run(); }

}  // namespace archipelago::simulate
