#include "runtime/fragment_sender.h"

#include <algorithm>

namespace archipelago::runtime {
namespace {

// Enough to keep a link busy, few enough that a slow one never holds more than this in memory.
constexpr int kInFlight = 2;
constexpr double kMendSeconds = 2;
constexpr double kMendSteps = 4;

}  // namespace

double mend_pause(double step_seconds) { return std::max(kMendSeconds, kMendSteps * step_seconds); }

FragmentSender::FragmentSender(link::SyncerEnd& link, GlobalState& state, int fragments)
    : link_(link), state_(state), fragments_(fragments) {}

void FragmentSender::add_peer() {
  const auto fragments = static_cast<std::size_t>(fragments_);
  peers_.push_back({std::vector<bool>(fragments, false), std::vector<std::int32_t>(fragments, -1)});
}

void FragmentSender::mark(int peer, int fragment) {
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  auto missing = to.missing.at(static_cast<std::size_t>(fragment));
  if (!missing) ++to.count;
  missing = true;
}

void FragmentSender::mark_whole(int peer, int fragment) {
  peers_.at(static_cast<std::size_t>(peer)).sent.at(static_cast<std::size_t>(fragment)) = -1;
  mark(peer, fragment);
}

void FragmentSender::mark_all(int peer) {
  for (int fragment = 0; fragment < fragments_; ++fragment) {
    if (state_.holds(fragment)) mark_whole(peer, fragment);
  }
}

void FragmentSender::mark_older(int peer, std::span<const std::int32_t> reported,
                                std::span<const std::int32_t> versions) {
  for (std::size_t p = 0; p < versions.size(); ++p) {
    const int fragment = static_cast<int>(p);
    if (state_.holds(fragment) && reported[p] < versions[p]) mark_whole(peer, fragment);
  }
}

void FragmentSender::begin_life(int peer, int learner, int incarnation) {
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  to.missing.assign(to.missing.size(), false);
  to.sent.assign(to.sent.size(), -1);
  to.count = 0;
  to.learner = learner;
  to.incarnation = incarnation;
}

void FragmentSender::pump(std::int64_t run_tokens) {
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    Peer& to = peers_[static_cast<std::size_t>(peer)];
    while (to.count > 0 && link_.data_in_flight(peer) < kInFlight) {
      while (!to.missing[static_cast<std::size_t>(to.next)]) to.next = (to.next + 1) % fragments_;
      to.missing[static_cast<std::size_t>(to.next)] = false;
      --to.count;
      send(peer, to.next, run_tokens);
    }
  }
}

void FragmentSender::send(int peer, int fragment, std::int64_t run_tokens) {
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  std::int32_t& sent = to.sent.at(static_cast<std::size_t>(fragment));
  const auto update = state_.update_from(fragment, sent);
  sent = update ? sent + 1 : state_.version(fragment);
  link::DownHeader header;
  header.kind = link::DownKind::fragment;
  header.learner = to.learner;
  header.incarnation = to.incarnation;
  header.fragment = fragment;
  header.version = sent;
  header.tokens = run_tokens;
  header.elements = static_cast<std::int64_t>(state_.theta(fragment)->size());
  header.encoding = static_cast<std::int32_t>(update ? state_.wire().down : state_.wire().whole());
  if (update) {
    header.base_checksum = update->base;
    header.whole_checksum = update->whole;
  }
  link_.send(peer, header, update ? update->data : state_.payload(fragment));
  if (sent < state_.version(fragment)) mark(peer, fragment);
}

}  // namespace archipelago::runtime
