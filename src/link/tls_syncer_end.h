#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "link/link.h"
#include "link/mailbox.h"
#include "link/tls_connection.h"

namespace archipelago::link {

// The syncer's end of pairs over TLS. Each has a mailbox in this process's memory and a thread that
// carries out the puts that come in and sends what is queued, so that nothing here waits.
class TlsSyncerEnd : public SyncerEnd {
 public:
  explicit TlsSyncerEnd(const MailboxLayout& layout);
  ~TlsSyncerEnd() override;
  TlsSyncerEnd(const TlsSyncerEnd&) = delete;
  TlsSyncerEnd& operator=(const TlsSyncerEnd&) = delete;

  // The new peer's number, counted from 0.
  int add(TlsConnection connection);

  // Waits until all leaders have closed their ends, for at most so many seconds: where this process
  // ended before, the system might take back what it has sent last.
  void wait_for_leaders(double seconds) const;

  int peers() const override { return static_cast<int>(peers_.size()); }
  void poll(std::vector<int>& lost) override;
  std::optional<Report> read_report(int peer) override;
  std::optional<ArrivedFragment> read_fragment(int peer) override;
  void acknowledge(int peer, int slot) override;
  void send(int peer, DownHeader header, const Payload& data = {}) override;
  int data_in_flight(int peer) const override;
  bool drained() const override;
  std::int64_t damaged() const override { return damaged_; }
  std::int64_t bytes_up() const override { return bytes_up_; }
  std::int64_t bytes_down() const override { return bytes_down_; }

 private:
  class Peer;

  Peer& peer_at(int peer) const { return *peers_.at(static_cast<std::size_t>(peer)); }

  MailboxLayout layout_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::int64_t damaged_ = 0;
  std::int64_t bytes_up_ = 0;
  std::int64_t bytes_down_ = 0;
};

}  // namespace archipelago::link
