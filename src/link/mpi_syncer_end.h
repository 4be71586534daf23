#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "link/link.h"
#include "link/mpi_pair.h"

namespace archipelago::link {

// The syncer's end of all pairs over MPI. It issues no one-sided call: it reads its own memory,
// sends without blocking, and leaves a pair alone for ever once its leader is dead.
class MpiSyncerEnd : public SyncerEnd {
 public:
  explicit MpiSyncerEnd(const MailboxLayout& layout) : layout_(layout) {}
  // Sends to the dead may still be open: their memory is left to the process's end.
  ~MpiSyncerEnd() override;
  MpiSyncerEnd(const MpiSyncerEnd&) = delete;
  MpiSyncerEnd& operator=(const MpiSyncerEnd&) = delete;

  // The new peer's number, counted from 0.
  int add(MpiPair pair);

  int peers() const override { return static_cast<int>(peers_.size()); }
  void poll(std::vector<int>& lost) override;
  std::optional<Report> read_report(int peer) override;
  std::optional<ArrivedFragment> read_fragment(int peer) override;
  void acknowledge(int peer, int slot) override;
  void send(int peer, DownHeader header, const Payload& data) override;
  int data_in_flight(int peer) const override;
  bool drained() const override;
  std::int64_t damaged() const override { return damaged_; }
  std::int64_t bytes_up() const override { return bytes_up_; }
  std::int64_t bytes_down() const override { return bytes_down_; }

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

  void finish_sends(Peer& peer);
  Peer& peer_at(int peer) { return *peers_.at(static_cast<std::size_t>(peer)); }

  MailboxLayout layout_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::int64_t damaged_ = 0;
  std::int64_t bytes_up_ = 0;
  std::int64_t bytes_down_ = 0;
};

}  // namespace archipelago::link
