#include "runtime/merging_syncer.h"

#include <algorithm>
#include <string>
#include <variant>

#include "core/log.h"
#include "runtime/clock.h"
#include "runtime/other_syncers.h"

namespace archipelago::runtime {
namespace {

constexpr double kPollSeconds = 0.0005;
constexpr std::int64_t kReadElements = 2 << 20;  // of fragments a turn
constexpr double kBeatSeconds = 0.2;

}  // namespace

MergingSyncer::MergingSyncer(const Setup& setup, Share share, link::SyncerEnd& link,
                             Streams streams, const std::optional<checkpoint::Global>& restored)
    : setup_(setup),
      link_(link),
      streams_(streams),
      tape_(setup, restored),
      state_(restored ? GlobalState(setup, *restored, share) : GlobalState(setup, share)),
      merger_(state_),
      sender_(link, state_, setup.fragment_count()),
      arrivals_(setup, link, state_),
      peers_(static_cast<std::size_t>(link.peers())),
      last_turn_(now_seconds()) {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) sender_.add_peer();
}

std::optional<MergingSyncer::End> MergingSyncer::turn() {
  const double now = now_seconds();
  largest_gap_ = std::max(largest_gap_, now - last_turn_);
  last_turn_ = now;

  std::vector<link::ReplicaMessage> messages;
  const auto first = streams_.decisions.poll(messages);
  for (const auto& message : messages) {
    if (message.header.kind == link::ReplicaKind::event) follow(message.text);
    if (message.header.kind == link::ReplicaKind::collect) send_all(message.header.cut);
    if (message.header.kind == link::ReplicaKind::finish) {
      return message.header.orderly != 0 ? End::concluded : End::concluded_after_losses;
    }
  }
  if (first == link::PeerState::lost) return End::deserted;

  listen();
  take_merged();
  sender_.pump(tape_.machine().total_tokens());
  beat();
  streams_.events.poll();
  streams_.fragments.poll();
  if (!arrivals_.reading()) sleep_seconds(kPollSeconds);
  return std::nullopt;
}

void MergingSyncer::listen() {
  std::vector<int> lost;
  link_.poll(lost);
  for (const int peer : lost) peers_[static_cast<std::size_t>(peer)].lost = true;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (peers_[static_cast<std::size_t>(peer)].lost) continue;
    while (const auto fragment = link_.read_fragment(peer)) arrivals_.take(peer, *fragment);
  }
  for (const auto& taken : arrivals_.read(kReadElements)) tell(taken.delivery());
}

void MergingSyncer::take_merged() {
  for (auto& result : merger_.take_results()) {
    state_.adopt(std::move(result.merged));
    const auto merged = merging_.extract(result.round);
    for (const Key& key : merged.mapped()) arrivals_.release(key);
    tell(sync::Merged{result.round, result.seconds});
  }
}

void MergingSyncer::tell(const sync::Event& event) {
  link::ReplicaHeader header;
  header.kind = link::ReplicaKind::event;
  streams_.events.send_text(header, sync::encode_entry(0, event, {}));
}

void MergingSyncer::beat() {
  const double now = now_seconds();
  if (now < next_beat_) return;
  next_beat_ = now + kBeatSeconds;
  streams_.events.send_text({}, encode({.bytes_up = link_.bytes_up(),
                                        .bytes_down = link_.bytes_down(),
                                        .refused = arrivals_.refused() + link_.damaged(),
                                        .largest_gap = largest_gap_}));
}

// ---- What the first syncer decided
// ---------------------------------------------------------------

void MergingSyncer::follow(const std::string& line) {
  const sync::TapeEntry entry = tape_.follow(line);
  for (const auto& action : entry.actions) {
    std::visit([this](const auto& what) { act(what); }, action);
  }
  const auto* report = std::get_if<sync::Report>(&entry.event);
  if (report == nullptr) return;
  state_.drop_unheld(tape_.machine().learners());
  mend(*report);
}

void MergingSyncer::begin_life(int peer, int learner, int incarnation) {
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  to.learner = learner;
  to.incarnation = incarnation;
  to.sent.clear();
  sender_.begin_life(peer, learner, incarnation);
}

std::optional<int> MergingSyncer::peer_of(int learner, int incarnation) const {
  const auto peer = std::ranges::find_if(peers_, [&](const Peer& each) {
    return !each.lost && each.learner == learner && each.incarnation == incarnation;
  });
  if (peer == peers_.end()) return std::nullopt;
  return static_cast<int>(peer - peers_.begin());
}

void MergingSyncer::act(const sync::Assign& action) {
  begin_life(action.island, action.learner, action.incarnation);
}

void MergingSyncer::act(const sync::Refresh& action) {
  if (const auto peer = peer_of(action.learner, action.incarnation)) sender_.mark_all(*peer);
}

void MergingSyncer::act(const sync::Merge& action) {
  if (!state_.holds(action.fragment)) return;
  MergeWorker::Job job{action.round, action.fragment, {}};
  std::vector<Key> keys;
  for (const auto& contribution : action.contributions) {
    keys.emplace_back(contribution.learner, contribution.incarnation, action.round);
    job.inputs.push_back(arrivals_.input(keys.back(), contribution.weight));
  }
  merging_.emplace(action.round, std::move(keys));
  merger_.add(std::move(job));
}

void MergingSyncer::act(const sync::Publish& action) {
  if (!state_.holds(action.fragment)) return;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].lost && peers_[peer].learner >= 0) {
      sender_.mark(static_cast<int>(peer), action.fragment);
    }
  }
}

void MergingSyncer::act(const sync::Discard& action) {
  arrivals_.release({action.learner, action.incarnation, action.round});
}

// What a report still lacks long after it was sent is sent again.
void MergingSyncer::mend(const sync::Report& report) {
  const auto number = peer_of(report.learner, report.incarnation);
  if (!number) return;
  Peer& peer = peers_[static_cast<std::size_t>(*number)];
  const double now = now_seconds();
  if (now < peer.next_mend || link_.data_in_flight(*number) > 0) return;
  peer.next_mend = now + mend_pause(report.step_seconds);
  sender_.mark_older(*number, report.held, std::exchange(peer.sent, state_.versions()));
}

// No merge is under way: the first syncer asks between two rounds.
void MergingSyncer::send_all(std::int64_t cut) {
  for (int p = 0; p < setup_.fragment_count(); ++p) {
    if (!state_.holds(p)) continue;
    link::ReplicaHeader header;
    header.kind = link::ReplicaKind::part;
    header.fragment = p;
    header.version = state_.version(p);
    header.cut = cut;
    streams_.fragments.send_fragment(header, state_.theta(p), state_.momentum(p));
  }
}

}  // namespace archipelago::runtime
