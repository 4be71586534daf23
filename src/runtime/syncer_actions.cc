#include <iterator>
#include <memory>
#include <utility>

#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/lease_message.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {
namespace {

constexpr double kGoodbyeSeconds = 20;
constexpr double kPatienceSeconds = 1;  // for the standby's acknowledgment of a merge

}  // namespace

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
  rejoins_.lose(book.learner, book.incarnation, now_seconds());
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
  rejoins_.begin(action.learner, action.incarnation);
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
  rejoins_.forget(action.learner);
  give_order(action.island, order_of(action));
}

void SyncerProcess::act(const sync::Pause&) {
  paused_ = true;
  for (std::size_t peer = 0; peer < islands_.size(); ++peer) {
    if (islands_[peer].learner >= 0) send_pause(static_cast<int>(peer));
  }
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

}  // namespace archipelago::runtime
