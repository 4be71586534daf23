#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "link/mailbox_syncer_end.h"
#include "link/mpi_pair.h"

namespace archipelago::link {

// The syncer's end of all pairs over MPI. It issues no one-sided call: it reads its own memory,
// sends without blocking, and leaves a pair alone for ever once its leader is dead.
class MpiSyncerEnd : public MailboxSyncerEnd {
 public:
  explicit MpiSyncerEnd(const MailboxLayout& layout) : MailboxSyncerEnd(layout, "island") {}
  // Sends to the dead may still be open: their memory is left to the process's end.
  ~MpiSyncerEnd() override;
  MpiSyncerEnd(const MpiSyncerEnd&) = delete;
  MpiSyncerEnd& operator=(const MpiSyncerEnd&) = delete;

  // The new peer's number, counted from 0.
  int add(MpiPair pair);

  int peers() const override { return static_cast<int>(peers_.size()); }
  void poll(std::vector<int>& lost) override;
  int data_in_flight(int peer) const override;
  bool drained() const override;

  // Collective over every pair in turn; only when all live.
  void close();

 private:
  struct Sending {
    DownHeader header;
    Payload data;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };
  struct Peer {
    MpiPair pair;
    MailboxReader reader;
    bool lost = false;
    MPI_Request sentinel = MPI_REQUEST_NULL;
    char sentinel_byte = 0;
    std::deque<std::unique_ptr<Sending>> sending;
  };

  bool is_lost(int peer) const override { return peer_at(peer).lost; }
  std::optional<Report> take_report(int peer) override {
    return peer_at(peer).reader.read_report();
  }
  std::optional<ArrivedFragment> take_fragment(int peer,
                                               std::optional<int>& damaged_slot) override {
    return peer_at(peer).reader.read_fragment(damaged_slot);
  }
  void queue(int peer, const DownHeader& header, const Payload& data) override;
  void finish_sends(Peer& peer);
  Peer& peer_at(int peer) const { return *peers_.at(static_cast<std::size_t>(peer)); }

  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace archipelago::link
