#include "runtime/syncer_process.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "core/log.h"
#include "core/units.h"
#include "runtime/clock.h"
#include "runtime/lifeline.h"
#include "runtime/machine_settings.h"
#include "runtime/record_lines.h"
#include "runtime/signals.h"

namespace archipelago::runtime {
namespace {

constexpr double kPollSeconds = 0.0005;
constexpr std::int64_t kReadElements = 2 << 20;  // of fragments a turn: a few milliseconds
constexpr double kLookSeconds = 0.2;
constexpr double kStatusSeconds = 1;
constexpr double kProgressSeconds = 2;

}  // namespace

SyncerProcess::SyncerProcess(const Setup& setup, const RunFolder& folder, link::SyncerEnd& link,
                             link::ReplicaSender* standby, const SyncerStart& start,
                             std::function<void(int)> refill)
    : setup_(setup),
      link_(link),
      folder_(folder),
      standby_(standby),
      others_(start.others),
      refill_(std::move(refill)),
      term_(start.term),
      started_(now_seconds()),
      record_(folder),
      statistics_(setup.step_tokens / setup.config.sync.learners, setup.config.sync.learners),
      state_(start.mirror     ? start.mirror->state()
             : start.restored ? GlobalState(setup, *start.restored, {0, setup.config.sync.syncers})
                              : GlobalState(setup, {0, setup.config.sync.syncers})),
      merger_(state_),
      validator_(start.validate),
      sender_(link, state_, setup.fragment_count()),
      arrivals_(setup, link, state_),
      machine_(start.mirror
                   ? start.mirror->machine()
                   : sync::Machine(machine_settings(setup), restored_from(start.restored))),
      chaos_(start.mirror ? start.mirror->chaos()
                          : Chaos(parse_chaos(setup.config.chaos), start.struck)),
      last_turn_(started_),
      progress_time_(started_) {
  tokens_at_start_ = machine_.total_tokens();
  merged_at_start_ = machine_.merged_tokens();
  progress_tokens_ = tokens_at_start_;
  for (const auto& members : start.islands) add_island(members);
  if (start.mirror != nullptr) {
    take_over(*start.mirror);
    next_progress_ = last_turn_ + kProgressSeconds;  // at once there is no speed to tell yet
  } else {
    record_.add_event(
        chain_.seal(sync::encode_start({machine_settings(setup), restored_from(start.restored)})));
    begin_contributions();
  }
}

void SyncerProcess::add_island(std::vector<island::Member> members, Origin origin) {
  IslandBook book;
  book.lost = members.empty();
  book.members = std::move(members);
  book.is_guest = origin == Origin::outside;
  islands_.push_back(std::move(book));
  sender_.add_peer();
}

double SyncerProcess::elapsed() const { return now_seconds() - started_; }

sync::Nanoseconds SyncerProcess::elapsed_ns() const {
  return static_cast<sync::Nanoseconds>(elapsed() * 1e9);
}

// ---- One turn ----------------------------------------------------------------------------------

void SyncerProcess::note_gap(double seconds) {
  largest_gap_ = std::max(largest_gap_, seconds);
  if (seconds < setup_.config.sync.suspect) return;
  log_warning("the syncer stood still for " + seconds_text(seconds) +
              " (stopped, or without a processor or a disk): nothing was merged meanwhile");
}

bool SyncerProcess::turn() {
  const double now = now_seconds();
  if (statistics_.started() && !finish_) note_gap(now - last_turn_);
  last_turn_ = now;

  replicate();
  listen();
  listen_to_others();
  take_merged();
  watch_for_stop();
  watch_for_nobody();
  note_launcher();
  find_dead_spares();
  inflict_chaos();
  start_waiting_save();
  note_saved();
  note_validation();
  const auto wakeup = machine_.next_wakeup();
  if (wakeup && elapsed_ns() >= *wakeup) tell(sync::Tick{});
  sender_.pump(machine_.total_tokens());
  if (now >= next_status_) {
    next_status_ = now + kStatusSeconds;
    write_status(state_name());
  }
  if (now >= next_progress_ && !finish_) {
    next_progress_ = now + kProgressSeconds;
    log_progress();
  }
  if (finish_ && goodbyes_done()) return false;
  if (!arrivals_.reading()) sleep_seconds(kPollSeconds);
  return true;
}

void SyncerProcess::listen() {
  std::vector<int> lost;
  link_.poll(lost);
  for (const int peer : lost) lose_island(peer, "its leader died");
  for (int peer = 0; peer < static_cast<int>(islands_.size()); ++peer) {
    if (islands_[static_cast<std::size_t>(peer)].lost) continue;
    if (const auto report = link_.read_report(peer)) on_report(peer, *report);
    while (const auto fragment = link_.read_fragment(peer)) arrivals_.take(peer, *fragment);
  }
  for (const auto& taken : arrivals_.read(kReadElements)) on_fragment(taken);
}

void SyncerProcess::lose_island(int peer, const std::string& reason) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  book.lost = true;
  if (book.finished) return;
  ++lost_islands_;
  const std::string place = "island " + std::to_string(peer) + ", " + book.members.front().host;
  const std::string who =
      book.learner < 0 ? place : "learner " + std::to_string(book.learner) + " (" + place + ")";
  const bool has_left = book.report.phase == link::Phase::leaving;
  if (has_left) {
    log_info(who + " has left the run");
  } else {
    log_warning(who + " is lost");
  }
  end_life(peer);
  tell(sync::IslandLost{peer, has_left ? "it has left" : reason});
}

void SyncerProcess::on_report(int peer, const link::Report& report) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  book.report = report;
  book.heard = now_seconds();
  if (report.phase == link::Phase::finished) book.finished = true;
  if (report.phase == link::Phase::leaving) return;
  if (book.to_reconcile) reconcile(peer, report);
  mend(peer, report);
  note_lease(book, report);
  if (report.orders != book.order.number) return;  // from before the last order
  if (report.phase == link::Phase::ready) {
    if (!book.ready_told) {
      book.ready_told = true;
      if (book.is_guest) {
        tell(sync::GuestReady{peer});
      } else {
        tell(sync::IslandReady{peer});
      }
    }
    return;
  }
  if (book.learner < 0) return;
  add_step_row(book, report);
  tell(sync::Report{report.learner, report.incarnation, report.step, report.tokens,
                    report.step_seconds, link::sound_loss(report), report.held});
  state_.drop_unheld(machine_.learners());
  note_rejoins();
}

// Also of a learner that is about to leave: what it still gives was trained by this lease.
void SyncerProcess::note_lease(IslandBook& book, const link::Report& report) {
  if (report.learner != book.leased_to || report.incarnation != book.incarnation ||
      report.lease <= book.lease_told) {
    return;
  }
  book.lease_told = report.lease;
  tell(sync::LeaseFollowed{report.learner, report.incarnation, report.lease, report.lease_tokens});
}

void SyncerProcess::add_step_row(IslandBook& book, const link::Report& report) {
  if (report.step_seconds <= 0 || report.step == book.row_step) return;
  book.row_step = report.step;
  statistics_.add_step(report, now_seconds());
  record_.add_metrics(step_row(elapsed(), report, report.blocked_seconds - book.row_blocked,
                               report.joules - book.row_joules));
  book.row_blocked = report.blocked_seconds;
  book.row_joules = report.joules;
}

void SyncerProcess::note_rejoins() {
  for (const auto& rejoin : rejoins_.take(machine_.learners(), now_seconds())) {
    log_info("learner " + std::to_string(rejoin.learner) + " counts again after " +
             std::to_string(rejoin.seconds) + " s (life " + std::to_string(rejoin.incarnation) +
             ")");
    record_.add_event(rejoin_line(elapsed_ns(), rejoin));
  }
}

void SyncerProcess::on_fragment(const Arrivals::Taken& taken) { tell(taken.delivery()); }

void SyncerProcess::take_merged() {
  for (auto& result : merger_.take_results()) {
    const OpenMerge& merge = merging_.at(result.round);
    state_.adopt(std::move(result.merged));
    for (const Key& key : merge.inputs) arrivals_.release(key);
    replicate_fragment(merge.fragment);
    end_round({result.round, result.seconds});
  }
}

// The merged fragment is in place.
void SyncerProcess::end_round(const sync::Merged& event) {
  const OpenMerge merge = merging_.extract(event.round).mapped();
  record_.add_metrics(
      {{"t", elapsed()},
       {"round", event.round},
       {"fragment", merge.fragment},
       {"version", machine_.versions()[static_cast<std::size_t>(merge.fragment)] + 1},
       {"contributors", merge.contributors},
       {"wait_s", now_seconds() - merge.opened - event.seconds},
       {"merge_s", event.seconds}});
  tell(event);
}

void SyncerProcess::watch_for_stop() {
  const double now = now_seconds();
  if (now < next_look_ || finish_) return;
  next_look_ = now + kLookSeconds;
  if (const auto whose = folder_.take_stop()) {
    tell(sync::StopRequested{*whose});
  } else if (lifeline_is_slack()) {
    tell(sync::StopRequested{kLauncherGone});
  } else if (const auto signal = signal_request()) {
    tell(sync::StopRequested{*signal});
  } else {
    watch_for_scale();
  }
}

void SyncerProcess::watch_for_nobody() {
  if (finish_ || !std::ranges::all_of(islands_, &IslandBook::lost)) {
    nobody_since_.reset();
    return;
  }
  const double now = now_seconds();
  if (!nobody_since_) nobody_since_ = now;
  const auto& options = setup_.config.sync;
  const bool may_come = config::can_grow(options);
  if (now - *nobody_since_ < (may_come ? options.expel : 0)) return;
  log_error(kNobodyLeft);
  tell(sync::NobodyLeft{kNobodyLeft});
}

void SyncerProcess::note_launcher() {
  if (launcher_gone_ || !is_on_lifeline()) return;
  launcher_gone_ = true;
  next_status_ = 0;
  log_warning("mpirun is gone, a host is lost; the run goes on without it");
  record_.add_event(nlohmann::json{{"t", elapsed_ns()}, {"launcher", "gone"}});
}

// Without MPI's launcher nobody tells of their deaths, and none of them must be given a place.
void SyncerProcess::find_dead_spares() {
  if (!launcher_gone_) return;
  const double now = now_seconds();
  const double limit = setup_.config.sync.suspect;
  // Where this process itself was held up, what they have said may wait to be read.
  const bool held_up = now - looked_at_spares_ > limit / 2;
  looked_at_spares_ = now;
  for (int peer = 0; peer < static_cast<int>(islands_.size()); ++peer) {
    IslandBook& book = islands_[static_cast<std::size_t>(peer)];
    if (held_up) book.heard = now;
    if (book.lost || book.learner >= 0 || now - book.heard < limit) continue;
    lose_island(peer, "it fell silent");
  }
}

void SyncerProcess::tell(const sync::Event& event) {
  if (failure_) return;
  const sync::Nanoseconds now = elapsed_ns();
  actions_.clear();
  const int wanted = machine_.wanted();
  machine_.handle(now, event, actions_);
  if (machine_.wanted() != wanted) note_wanted();
  if (setup_.config.record == "fragments") keep_contributions(record_, actions_, arrivals_);
  std::string entry = chain_.seal(sync::encode_entry(now, event, actions_));
  replicate_entry(entry);
  tell_others(entry);
  record_.add_event(std::move(entry));
  // Nothing that an action does tells the machine anything: it hears of it in a later turn.
  for (const auto& action : actions_) std::visit([this](const auto& a) { act(a); }, action);
  note_silences(event);
}

void SyncerProcess::begin_contributions() {
  if (setup_.config.record != "fragments") return;
  runtime::begin_contributions(record_, elapsed_ns(), fragment::next_life(folder_.contributions()),
                               setup_.config.sync);
}

// ---- The end -----------------------------------------------------------------------------------

bool SyncerProcess::goodbyes_done() {
  const bool all = std::all_of(islands_.begin(), islands_.end(),
                               [](const IslandBook& book) { return book.lost || book.finished; });
  if (cuts_.under_way() && !failure_) return false;
  if (!all && now_seconds() > goodbye_deadline_) {
    log_warning("some islands did not say goodbye in time");
    ++lost_islands_;
    return true;
  }
  return all;
}

}  // namespace archipelago::runtime
