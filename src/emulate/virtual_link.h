#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "emulate/conditions.h"
#include "emulate/timeline.h"
#include "link/link.h"

namespace archipelago::emulate {

// All pairs of leaders with the syncer, in virtual time. Each way data leaves one after the other
// at the link's bandwidth and arrives after its latency; what has no data waits for none going up,
// and keeps its place going down. As with mpi_pair a fragment goes up in one of two slots.
class VirtualLink final : public link::SyncerEnd {
 public:
  // Who is told of what, when it happens.
  struct Listeners {
    std::function<void(int peer)> syncer;                     // something can be read
    std::function<void()> left;                               // data has left the syncer
    std::function<void(int peer, link::DownMessage)> island;  // a message has come
    std::function<void(int peer)> room;                       // can_stage() has become true
    std::function<void(int peer)> lost;                       // the syncer sees that it is dead
  };
  VirtualLink(Timeline& timeline, Listeners listeners);

  // The next peer, at a site with this link.
  void add_peer(const Site& site);

  // ---- the leader's side ----
  void put_report(int peer, const link::Report& report);
  bool can_stage(int peer) const;
  void put_fragment(int peer, link::FragmentHeader header, link::Bytes data);
  // Its process dies now: what has not left it never will.
  void kill(int peer);

  // ---- the syncer's side ----
  int peers() const override { return static_cast<int>(peers_.size()); }
  void poll(std::vector<int>&) override {}  // Listeners::lost
  std::optional<link::Report> read_report(int peer) override;
  std::optional<link::ArrivedFragment> read_fragment(int peer) override;
  void acknowledge(int peer, int slot) override;
  void send(int peer, link::DownHeader header, const link::Payload& data = {}) override;
  int data_in_flight(int peer) const override { return at(peer).in_flight; }
  bool drained() const override { return true; }
  std::int64_t damaged() const override { return 0; }
  std::int64_t bytes_up() const override { return bytes_up_; }
  std::int64_t bytes_down() const override { return bytes_down_; }

 private:
  struct Fragment {
    link::FragmentHeader header;
    link::Bytes data;
  };
  struct Slot {
    bool free = true;
    Fragment fragment;
  };
  struct Peer {
    Site site;
    std::optional<Nanoseconds> died;
    std::deque<Fragment> staged;
    std::vector<Slot> slots;
    std::deque<int> arrived;  // slots
    std::optional<link::Report> report;
    Nanoseconds up_free = 0;
    Nanoseconds down_free = 0;
    int in_flight = 0;  // down, with data
  };

  Peer& at(int peer) { return peers_.at(static_cast<std::size_t>(peer)); }
  const Peer& at(int peer) const { return peers_.at(static_cast<std::size_t>(peer)); }
  void send_staged(int peer);
  // When data that is given to it now has left.
  Nanoseconds leaves(const Peer& peer, Nanoseconds free, std::size_t bytes) const;

  Timeline& timeline_;
  Listeners listeners_;
  std::deque<Peer> peers_;
  std::int64_t bytes_up_ = 0;
  std::int64_t bytes_down_ = 0;
};

}  // namespace archipelago::emulate
