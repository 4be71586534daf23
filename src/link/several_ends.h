#pragma once

#include <utility>
#include <vector>

#include "link/link.h"

namespace archipelago::link {

// The peers of several ends as those of one, numbered in the order in which they came.
class SeveralEnds : public SyncerEnd {
 public:
  // With the peers that the first of the ends has; the others have none yet. `ends` outlive this.
  explicit SeveralEnds(std::vector<SyncerEnd*> ends);

  // A peer that one of the ends has got; its number here.
  int add(SyncerEnd& end, int peer);
  // A number for a peer that is gone: nothing ever comes from it, and what is sent to it is lost.
  int add_absent();

  int peers() const override { return static_cast<int>(routes_.size()); }
  void poll(std::vector<int>& lost) override;
  std::optional<Report> read_report(int peer) override;
  std::optional<ArrivedFragment> read_fragment(int peer) override;
  void acknowledge(int peer, int slot) override;
  void send(int peer, DownHeader header, const Payload& data = {}) override;
  int data_in_flight(int peer) const override;
  bool drained() const override;
  std::int64_t damaged() const override;
  std::int64_t bytes_up() const override;
  std::int64_t bytes_down() const override;

 private:
  struct Route {
    SyncerEnd* end = nullptr;  // null: absent
    int peer = -1;             // its number there
  };

  const Route& route(int peer) const { return routes_.at(static_cast<std::size_t>(peer)); }

  std::vector<SyncerEnd*> ends_;
  std::vector<Route> routes_;
};

}  // namespace archipelago::link
