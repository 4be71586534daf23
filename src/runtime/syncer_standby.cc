#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/log.h"
#include "mpi/session.h"
#include "runtime/clock.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {
namespace {

constexpr double kHeartbeatSeconds = 0.2;

// Entries of the event tape since its last start line.
std::int64_t count_entries(const std::filesystem::path& tape) {
  std::ifstream file(tape);
  std::int64_t entries = 0;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.contains("settings")) entries = 0;
    if (row.contains("event")) ++entries;
  }
  return entries;
}

}  // namespace

void SyncerProcess::take_over(const Mirror& mirror) {
  started_ = now_seconds() - static_cast<double>(mirror.time()) / 1e9;
  statistics_.set_learners(machine_.wanted(), mirror.heard());
  if (machine_.total_tokens() > 0) statistics_.begin(mirror.heard());
  progress_time_ = mirror.heard();
  paused_ = mirror.paused();
  chain_ = mirror.chain();
  continue_tape(mirror);
  begin_contributions();
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    islands_[peer].order = mirror.orders().at(peer);
    islands_[peer].to_reconcile = true;
  }
  const auto& learners = machine_.learners();
  for (std::size_t id = 0; id < learners.size(); ++id) {
    if (learners[id].island < 0) continue;
    IslandBook& book = islands_.at(static_cast<std::size_t>(learners[id].island));
    book.learner = static_cast<int>(id);
    book.incarnation = learners[id].incarnation;
    book.leased_to = book.learner;
  }
  link::DownHeader turn;
  turn.kind = link::DownKind::turn;
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    link_.send(static_cast<int>(peer), turn);
  }
  if (!mirror.finish()) {
    silences_.update(learners, mirror.time());  // told by the syncer before
    tell(sync::SyncerReplaced{term_});
    for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
      if (!islands_[peer].lost) continue;
      end_life(static_cast<int>(peer));
      tell(sync::IslandLost{static_cast<int>(peer), "its link was with the syncer before"});
    }
    return;
  }
  // The syncer died after its last decision: its last checkpoint and the goodbyes are done again.
  act(sync::SaveGlobal{machine_.rounds()});
  act(*mirror.finish());
}

// The tape goes on where the mirror stands: entries that the syncer before did not get to write are
// added, and a line says how many of the tape's entries count.
void SyncerProcess::continue_tape(const Mirror& mirror) {
  const auto& recent = mirror.recent_entries();
  const auto missing = static_cast<std::ptrdiff_t>(
      std::clamp<std::int64_t>(mirror.entries() - count_entries(folder_.events()), 0,
                               static_cast<std::int64_t>(recent.size())));
  for (auto entry = recent.end() - missing; entry != recent.end(); ++entry) {
    record_.add_event(*entry);
  }
  record_.add_event(nlohmann::json{{"t", mirror.time()},
                                   {"takeover", {{"term", term_}, {"entries", mirror.entries()}}}});
}

// The first report after a takeover tells what of the syncer before has reached the island.
void SyncerProcess::reconcile(int peer, const link::Report& report) {
  IslandBook& book = islands_[static_cast<std::size_t>(peer)];
  book.to_reconcile = false;
  if (report.orders > book.order.number) {
    // It follows an order that nobody else knows of.
    link::DownHeader header;
    header.kind = link::DownKind::fault;
    header.fault = static_cast<std::int32_t>(FaultKind::kill);
    link_.send(peer, header);
    return;
  }
  if (report.orders < book.order.number) {
    link_.send(peer, book.order.header);
    send_lease(peer);
    if (book.learner >= 0) sender_.mark_all(peer);
  } else if (book.learner >= 0) {
    if (book.order.lease && report.lease < book.order.lease->header.round) send_lease(peer);
    sender_.mark_older(peer, report.held, state_.versions());
  }
  if (paused_ && book.learner >= 0) act(sync::Pause{});
}

void SyncerProcess::replicate() {
  if (standby_ == nullptr) return;
  standby_->poll();
  if (standby_->superseded()) {
    log_error("the standby syncer has taken over; this one ends");
    mpi::die_visibly();
  }
  publish_acknowledged();
  const double now = now_seconds();
  if (now < next_heartbeat_) return;
  next_heartbeat_ = now + kHeartbeatSeconds;
  standby_->send_text({}, "");
}

void SyncerProcess::replicate_fragment(int fragment) {
  if (standby_ == nullptr) return;
  link::ReplicaHeader header;
  header.kind = link::ReplicaKind::merged;
  header.fragment = fragment;
  header.version = state_.version(fragment);
  standby_->send_fragment(header, state_.theta(fragment), state_.momentum(fragment));
}

void SyncerProcess::replicate_entry(const std::string& entry) {
  if (standby_ == nullptr) return;
  link::ReplicaHeader header;
  header.kind = link::ReplicaKind::event;
  replicated_ = standby_->send_text(header, entry);
}

// No round that a learner has seen may be lost with this process: what is merged goes to learners
// only when the standby has it, dead or silent standbys excepted.
void SyncerProcess::publish_acknowledged() {
  const double now = now_seconds();
  std::erase_if(unpublished_, [&](const Unpublished& waiting) {
    const bool known = standby_->acknowledged() >= waiting.number || standby_->lost();
    if (!known && now < waiting.deadline) return false;
    publish(waiting.fragment);
    return true;
  });
}

}  // namespace archipelago::runtime
