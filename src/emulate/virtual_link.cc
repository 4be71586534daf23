#include "emulate/virtual_link.h"

#include <algorithm>
#include <utility>

namespace archipelago::emulate {
namespace {

constexpr std::size_t kSlots = 2;
constexpr std::size_t kStagedFragments = 2;  // that wait for a slot

}  // namespace

VirtualLink::VirtualLink(Timeline& timeline, Listeners listeners)
    : timeline_(timeline), listeners_(std::move(listeners)) {}

void VirtualLink::add_peer(const Site& site) {
  Peer peer;
  peer.site = site;
  peer.slots.resize(kSlots);
  peers_.push_back(std::move(peer));
}

Nanoseconds VirtualLink::leaves(const Peer& peer, Nanoseconds free, std::size_t bytes) const {
  const double gbps = peer.site.gbps;
  const double seconds = gbps > 0 ? static_cast<double>(bytes) * 8e-9 / gbps : 0;
  return after(std::max(timeline_.now(), free), seconds);
}

void VirtualLink::put_report(int peer, const link::Report& report) {
  timeline_.at(timeline_.in(at(peer).site.latency), [this, peer, report] {
    at(peer).report = report;
    listeners_.syncer(peer);
  });
}

bool VirtualLink::can_stage(int peer) const { return at(peer).staged.size() < kStagedFragments; }

void VirtualLink::put_fragment(int peer, link::FragmentHeader header, link::Bytes data) {
  header.bytes = std::ssize(data);
  at(peer).staged.push_back({header, std::move(data)});
  send_staged(peer);
}

void VirtualLink::send_staged(int number) {
  Peer& peer = at(number);
  while (!peer.staged.empty() && !peer.died) {
    const auto slot = std::ranges::find_if(peer.slots, &Slot::free);
    if (slot == peer.slots.end()) return;
    slot->free = false;
    slot->fragment = std::move(peer.staged.front());
    peer.staged.pop_front();
    const Nanoseconds left = leaves(peer, peer.up_free, slot->fragment.data.size());
    peer.up_free = left;
    bytes_up_ += std::ssize(slot->fragment.data);
    const int place = static_cast<int>(slot - peer.slots.begin());
    timeline_.at(after(left, peer.site.latency), [this, number, place, left] {
      Peer& from = at(number);
      if (from.died && left > *from.died) return;
      from.arrived.push_back(place);
      listeners_.syncer(number);
    });
  }
}

void VirtualLink::kill(int number) {
  Peer& peer = at(number);
  peer.died = timeline_.now();
  timeline_.at(timeline_.in(peer.site.latency), [this, number] { listeners_.lost(number); });
}

std::optional<link::Report> VirtualLink::read_report(int peer) {
  return std::exchange(at(peer).report, std::nullopt);
}

std::optional<link::ArrivedFragment> VirtualLink::read_fragment(int number) {
  Peer& peer = at(number);
  if (peer.arrived.empty()) return std::nullopt;
  const int slot = peer.arrived.front();
  peer.arrived.pop_front();
  const Fragment& fragment = peer.slots[static_cast<std::size_t>(slot)].fragment;
  return link::ArrivedFragment{fragment.header, fragment.data, slot};
}

void VirtualLink::acknowledge(int number, int slot) {
  timeline_.at(timeline_.in(at(number).site.latency), [this, number, slot] {
    Peer& peer = at(number);
    const bool was_full = !can_stage(number);
    peer.slots[static_cast<std::size_t>(slot)].free = true;
    send_staged(number);
    if (was_full && can_stage(number) && !peer.died) listeners_.room(number);
  });
}

void VirtualLink::send(int number, link::DownHeader header, const link::Payload& data) {
  Peer& peer = at(number);
  const auto bytes = data.bytes();
  header.bytes = std::ssize(bytes);
  header.checksum = data.checksum();
  const Nanoseconds left = leaves(peer, peer.down_free, bytes.size());
  peer.down_free = left;
  bytes_down_ += header.bytes;
  const bool counts = !bytes.empty();
  if (counts) {
    ++peer.in_flight;
    timeline_.at(left, [this, number] {
      --at(number).in_flight;
      listeners_.left();
    });
  }
  timeline_.at(after(left, peer.site.latency), [this, number, header, data] {
    if (at(number).died) return;
    const auto arrived = data.bytes();
    listeners_.island(number, {header, link::Bytes(arrived.begin(), arrived.end())});
  });
}

}  // namespace archipelago::emulate
