#include "link/several_ends.h"

#include <algorithm>
#include <numeric>

namespace archipelago::link {
namespace {

std::int64_t sum(const std::vector<SyncerEnd*>& ends, std::int64_t (SyncerEnd::*count)() const) {
  return std::accumulate(
      ends.begin(), ends.end(), std::int64_t{0},
      [count](std::int64_t all, const SyncerEnd* end) { return all + (end->*count)(); });
}

}  // namespace

SeveralEnds::SeveralEnds(std::vector<SyncerEnd*> ends) : ends_(std::move(ends)) {
  for (int peer = 0; peer < ends_.front()->peers(); ++peer) add(*ends_.front(), peer);
}

int SeveralEnds::add(SyncerEnd& end, int peer) {
  routes_.push_back({&end, peer});
  return peers() - 1;
}

int SeveralEnds::add_absent() {
  routes_.emplace_back();
  return peers() - 1;
}

void SeveralEnds::poll(std::vector<int>& lost) {
  std::vector<int> lost_there;
  for (SyncerEnd* const end : ends_) {
    lost_there.clear();
    end->poll(lost_there);
    for (const int peer : lost_there) {
      const auto found = std::ranges::find_if(
          routes_, [&](const Route& to) { return to.end == end && to.peer == peer; });
      if (found != routes_.end()) lost.push_back(static_cast<int>(found - routes_.begin()));
    }
  }
}

std::optional<Report> SeveralEnds::read_report(int peer) {
  const Route& from = route(peer);
  return from.end == nullptr ? std::nullopt : from.end->read_report(from.peer);
}

std::optional<ArrivedFragment> SeveralEnds::read_fragment(int peer) {
  const Route& from = route(peer);
  return from.end == nullptr ? std::nullopt : from.end->read_fragment(from.peer);
}

void SeveralEnds::acknowledge(int peer, int slot) {
  const Route& to = route(peer);
  if (to.end != nullptr) to.end->acknowledge(to.peer, slot);
}

void SeveralEnds::send(int peer, DownHeader header, const Payload& data) {
  const Route& to = route(peer);
  if (to.end != nullptr) to.end->send(to.peer, header, data);
}

int SeveralEnds::data_in_flight(int peer) const {
  const Route& to = route(peer);
  return to.end == nullptr ? 0 : to.end->data_in_flight(to.peer);
}

bool SeveralEnds::drained() const {
  return std::ranges::all_of(ends_, [](const SyncerEnd* end) { return end->drained(); });
}

std::int64_t SeveralEnds::damaged() const { return sum(ends_, &SyncerEnd::damaged); }
std::int64_t SeveralEnds::bytes_up() const { return sum(ends_, &SyncerEnd::bytes_up); }
std::int64_t SeveralEnds::bytes_down() const { return sum(ends_, &SyncerEnd::bytes_down); }

}  // namespace archipelago::link
