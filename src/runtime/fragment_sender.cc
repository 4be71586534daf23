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
  peers_.push_back({std::vector<bool>(static_cast<std::size_t>(fragments_), false)});
}

void FragmentSender::mark(int peer, int fragment) {
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  auto missing = to.missing.at(static_cast<std::size_t>(fragment));
  if (!missing) ++to.count;
  missing = true;
}

void FragmentSender::mark_all(int peer) {
  for (int fragment = 0; fragment < fragments_; ++fragment) {
    if (state_.holds(fragment)) mark(peer, fragment);
  }
}

void FragmentSender::mark_older(int peer, std::span<const std::int32_t> reported,
                                std::span<const std::int32_t> versions) {
  for (std::size_t p = 0; p < versions.size(); ++p) {
    const int fragment = static_cast<int>(p);
    if (state_.holds(fragment) && reported[p] < versions[p]) mark(peer, fragment);
  }
}

void FragmentSender::begin_life(int peer, int learner, int incarnation) {
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  to.missing.assign(to.missing.size(), false);
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
  const Peer& to = peers_.at(static_cast<std::size_t>(peer));
  link::DownHeader header;
  header.kind = link::DownKind::fragment;
  header.learner = to.learner;
  header.incarnation = to.incarnation;
  header.fragment = fragment;
  header.version = state_.version(fragment);
  header.tokens = run_tokens;
  header.elements = static_cast<std::int64_t>(state_.theta(fragment)->size());
  header.encoding = static_cast<std::int32_t>(state_.encoding());
  link_.send(peer, header, state_.payload(fragment));
}

}  // namespace archipelago::runtime
