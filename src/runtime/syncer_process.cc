#include "runtime/syncer_process.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <variant>

#include "core/checksum.h"
#include "core/error.h"
#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/lease_message.h"
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
constexpr double kGoodbyeSeconds = 20;
constexpr double kPatienceSeconds = 1;  // for the standby's acknowledgment of a merge

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
      chaos_(start.mirror ? start.mirror->chaos() : Chaos(parse_chaos(setup.config.chaos))),
      last_turn_(started_),
      progress_time_(started_) {
  tokens_at_start_ = machine_.total_tokens();
  merged_at_start_ = machine_.merged_tokens();
  progress_tokens_ = tokens_at_start_;
  for (const auto& members : start.islands) add_island(members);
  if (start.mirror != nullptr) {
    take_over(*start.mirror);
    next_progress_ = started_ + kProgressSeconds;  // at once there is no speed to tell yet
  } else {
    record_.add_event(
        chain_.seal(sync::encode_start({machine_settings(setup), restored_from(start.restored)})));
    begin_contributions();
  }
}

void SyncerProcess::add_island(std::vector<island::Member> members) {
  IslandBook book;
  book.members = std::move(members);
  islands_.push_back(std::move(book));
  sender_.add_peer();
}

double SyncerProcess::elapsed() const { return now_seconds() - started_; }

sync::Nanoseconds SyncerProcess::elapsed_ns() const {
  return static_cast<sync::Nanoseconds>(elapsed() * 1e9);
}

// ---- One turn ----------------------------------------------------------------------------------

bool SyncerProcess::turn() {
  const double now = now_seconds();
  if (statistics_.started() && !finish_) largest_gap_ = std::max(largest_gap_, now - last_turn_);
  last_turn_ = now;

  replicate();
  listen();
  listen_to_others();
  take_merged();
  watch_for_stop();
  watch_for_nobody();
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
  for (const int peer : lost) {
    IslandBook& book = islands_[static_cast<std::size_t>(peer)];
    book.lost = true;
    if (book.finished) continue;
    ++lost_islands_;
    log_warning("island " + std::to_string(peer) + " (" + book.members.front().host + ") is lost");
    end_life(peer);
    tell(sync::IslandLost{peer, "its leader died"});
  }
  for (int peer = 0; peer < static_cast<int>(islands_.size()); ++peer) {
    if (islands_[static_cast<std::size_t>(peer)].lost) continue;
    if (const auto report = link_.read_report(peer)) on_report(peer, *report);
    while (const auto fragment = link_.read_fragment(peer)) arrivals_.take(peer, *fragment);
  }
  for (const auto& taken : arrivals_.read(kReadElements)) on_fragment(taken);
}

void SyncerProcess::on_report(int peer, const link::Report& report) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  book.report = report;
  if (report.phase == link::Phase::finished) book.finished = true;
  if (book.to_reconcile) reconcile(peer, report);
  mend(peer, report);
  note_lease(book, report);
  if (report.orders != book.order.number) return;  // from before the last order
  if (report.phase == link::Phase::ready) {
    if (!book.ready_told) {
      book.ready_told = true;
      tell(sync::IslandReady{peer});
    }
    return;
  }
  if (book.learner < 0) return;
  add_step_row(book, report);
  tell(sync::Report{report.learner, report.incarnation, report.step, report.tokens,
                    report.step_seconds, report.loss, report.held});
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
  const auto& learners = machine_.learners();
  for (auto entry = rejoining_.begin(); entry != rejoining_.end();) {
    const auto& [learner, life] = *entry;
    const auto& view = learners[static_cast<std::size_t>(learner)];
    if (view.incarnation != life.first || view.state != sync::LearnerState::active) {
      ++entry;
      continue;
    }
    const double seconds = now_seconds() - life.second;
    rejoin_seconds_.push_back(seconds);
    log_info("learner " + std::to_string(learner) + " counts again after " +
             std::to_string(seconds) + " s (life " + std::to_string(life.first) + ")");
    record_.add_event(nlohmann::json{
        {"t", elapsed_ns()},
        {"rejoined", {{"learner", learner}, {"incarnation", life.first}, {"seconds", seconds}}}});
    entry = rejoining_.erase(entry);
  }
}

void SyncerProcess::on_fragment(const Arrivals::Taken& taken) {
  const auto& header = taken.header;
  tell(sync::Delivery{header.learner, header.incarnation, header.round, header.fragment,
                      header.base_version, header.steps, header.tokens, header.at_tokens,
                      taken.norm});
}

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
  } else if (stop_signal() != 0) {
    tell(sync::StopRequested{"signal " + std::to_string(stop_signal())});
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
  const bool may_come = config::can_refill(options);
  if (now - *nobody_since_ < (may_come ? options.expel : 0)) return;
  log_error("no learner is left, and no spare to take a place");
  tell(sync::NobodyLeft{"no learner is left, and no spare to take a place"});
}

void SyncerProcess::tell(const sync::Event& event) {
  if (failure_) return;
  const sync::Nanoseconds now = elapsed_ns();
  actions_.clear();
  machine_.handle(now, event, actions_);
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

// ---- Actions -----------------------------------------------------------------------------------

std::optional<int> SyncerProcess::peer_of(int learner, int incarnation) const {
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    const IslandBook& book = islands_[peer];
    if (!book.lost && book.learner == learner && book.incarnation == incarnation) {
      return static_cast<int>(peer);
    }
  }
  return std::nullopt;
}

void SyncerProcess::give_order(int peer, link::DownHeader header) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  header.round = ++book.order.number;
  book.order.header = header;
  book.order.lease.reset();
  book.ready_told = false;
  sender_.begin_life(peer, header.learner, header.incarnation);
  link_.send(peer, header);
}

void SyncerProcess::send_lease(int peer) {
  const auto& lease = islands_[static_cast<std::size_t>(peer)].order.lease;
  if (!lease) return;
  link_.send(peer, lease->header, link::Payload(std::make_shared<const link::Bytes>(lease->data)));
}

void SyncerProcess::send_pause(int peer) {
  link::DownHeader header;
  header.kind = link::DownKind::pause;
  link_.send(peer, header);
}

void SyncerProcess::send_finish(int peer) {
  link::DownHeader header;
  header.kind = link::DownKind::finish;
  header.orderly = orderly() ? 1 : 0;
  link_.send(peer, header);
}

void SyncerProcess::end_life(int peer) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  sender_.clear(peer);
  if (book.learner < 0) return;
  statistics_.end_life(book.report);
  rejoining_[book.learner] = {book.incarnation + 1, now_seconds()};
  book.learner = -1;
  book.row_step = -1;
  book.row_blocked = 0;
  book.row_joules = 0;
}

void SyncerProcess::act(const sync::Assign& action) {
  IslandBook& book = islands_.at(static_cast<std::size_t>(action.island));
  book.learner = action.learner;
  book.incarnation = action.incarnation;
  book.leased_to = action.learner;
  book.lease_told = 0;
  if (auto lost = rejoining_.find(action.learner); lost != rejoining_.end()) {
    lost->second.first = action.incarnation;
  }
  give_order(action.island, order_of(action));
  if (paused_) act(sync::Pause{});
}

void SyncerProcess::act(const sync::Refresh& action) {
  if (const auto peer = peer_of(action.learner, action.incarnation)) sender_.mark_all(*peer);
}

void SyncerProcess::act(const sync::Lease& action) {
  const auto peer = peer_of(action.learner, action.incarnation);
  if (!peer) return;
  islands_[static_cast<std::size_t>(*peer)].order.lease =
      lease_message(action, machine_.shards_for(action.learner));
  send_lease(*peer);
}

void SyncerProcess::act(const sync::Ask& action) {
  round_opened_.try_emplace(action.round, now_seconds());
  const auto peer = peer_of(action.learner, action.incarnation);
  if (!peer) return;
  link_.send(*peer,
             ask_header(action, machine_.versions()[static_cast<std::size_t>(action.fragment)]));
}

void SyncerProcess::act(const sync::Merge& action) {
  merge_statistics_.add(action);
  OpenMerge merge{action.fragment, {}, {}, now_seconds()};
  if (const auto opened = round_opened_.find(action.round); opened != round_opened_.end()) {
    merge.opened = opened->second;
    round_opened_.erase(round_opened_.begin(), std::next(opened));
  }
  MergeWorker::Job job{action.round, action.fragment, {}};
  for (const auto& contribution : action.contributions) {
    const Key key{contribution.learner, contribution.incarnation, action.round};
    if (state_.holds(action.fragment)) {
      job.inputs.push_back(arrivals_.input(key, contribution.weight));
      merge.inputs.push_back(key);
    }
    if (contribution.weight > 0) merge.contributors.push_back(contribution.learner);
  }
  merging_.emplace(action.round, std::move(merge));
  if (state_.holds(action.fragment)) merger_.add(std::move(job));
}

void SyncerProcess::act(const sync::Publish& action) {
  if (!state_.holds(action.fragment)) return;
  if (standby_ != nullptr && !standby_->lost()) {
    unpublished_.push_back({replicated_, action.fragment, now_seconds() + kPatienceSeconds});
  } else {
    publish(action.fragment);
  }
}

void SyncerProcess::publish(int fragment) {
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    if (!islands_[peer].lost && islands_[peer].learner >= 0) {
      sender_.mark(static_cast<int>(peer), fragment);
    }
  }
}

void SyncerProcess::act(const sync::Discard& action) {
  log_line(LogLevel::debug, "dropped fragment " + std::to_string(action.fragment) + " of learner " +
                                std::to_string(action.learner) + ", round " +
                                std::to_string(action.round) + ": " + action.reason);
  merge_statistics_.add(action, now_seconds());
  arrivals_.release({action.learner, action.incarnation, action.round});
}

void SyncerProcess::act(const sync::Expel& action) {
  log_warning("learner " + std::to_string(action.learner) + " (life " +
              std::to_string(action.incarnation) + ") is expelled: " + action.reason);
  end_life(action.island);
  give_order(action.island, order_of(action));
}

void SyncerProcess::act(const sync::Retire& action) {
  log_info("learner " + std::to_string(action.learner) + " leaves on request");
  end_life(action.island);
  rejoining_.erase(action.learner);
  give_order(action.island, order_of(action));
}

void SyncerProcess::act(const sync::Pause&) {
  paused_ = true;
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    if (islands_[peer].learner >= 0) send_pause(static_cast<int>(peer));
  }
}

void SyncerProcess::act(const sync::SaveGlobal& action) {
  auto file = std::make_shared<checkpoint::Global>(checkpoint_of(machine_, setup_, action.round));
  if (others_ == nullptr) {
    save(file, state_);
  } else if (!cuts_.empty() && cuts_.back().round == action.round) {
    cuts_.back().file = std::move(file);
  }
}

void SyncerProcess::save(const std::shared_ptr<checkpoint::Global>& file,
                         const GlobalState& state) {
  record_.add_event(snapshot_line(elapsed_ns(), file->round, state.digest()));
  const auto write = [this, file, state, keep = setup_.config.checkpoint.keep] {
    const double begun = now_seconds();
    state.describe(*file);
    record_.flush();  // the run goes on from this file: the tape must not end before it
    checkpoint::save(folder_.checkpoints(), *file, state.arrays(), keep);
    auto saved = saved_file(folder_.checkpoints() / checkpoint::global_name(file->round),
                            now_seconds() - begun);
    const std::lock_guard lock(saved_mutex_);
    saved_.push_back(std::move(saved));
  };
  if (!machine_.finished()) validator_.start(file->round, file->tokens, state);
  WaitingSave save{"the global checkpoint of round " + std::to_string(file->round), write};
  if (machine_.finished()) {
    // The last one; whatever waits goes before it.
    writer_.finish();
    start_waiting_save();
    writer_.finish();
  }
  waiting_save_ = std::move(save);  // where the disk is slower than the rounds, the newest waits
  start_waiting_save();
}

void SyncerProcess::note_validation() {
  const auto result = validator_.take();
  if (!result) return;
  record_.add_metrics(validation_row(elapsed(), *result));
  log_info("validation loss " + std::to_string(result->score.loss) + " after round " +
           std::to_string(result->round));
}

void SyncerProcess::start_waiting_save() {
  if (!waiting_save_ || writer_.busy()) return;
  writer_.start(std::move(waiting_save_->what), std::move(waiting_save_->write));
  waiting_save_.reset();
}

void SyncerProcess::note_saved() {
  const std::lock_guard lock(saved_mutex_);
  for (const SavedFile& file : saved_) {
    log_info(words_on(file));
    record_.add_metrics({{"t", elapsed()},
                         {"checkpoint", file.path.filename().string()},
                         {"bytes", file.bytes},
                         {"seconds", file.seconds}});
  }
  saved_.clear();
}

void SyncerProcess::act(const sync::Refill& action) {
  spawns_ = true;
  refill_(action.islands);
}

void SyncerProcess::act(const sync::Finish& action) {
  finish_ = action;
  ended_ = now_seconds();
  goodbye_deadline_ = ended_ + kGoodbyeSeconds;
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) send_finish(static_cast<int>(peer));
}

// ---- The end -----------------------------------------------------------------------------------

bool SyncerProcess::goodbyes_done() {
  const bool all = std::all_of(islands_.begin(), islands_.end(),
                               [](const IslandBook& book) { return book.lost || book.finished; });
  if (!cuts_.empty() && !failure_) return false;
  if (!all && now_seconds() > goodbye_deadline_) {
    log_warning("some islands did not say goodbye in time");
    ++lost_islands_;
    return true;
  }
  return all;
}

}  // namespace archipelago::runtime
