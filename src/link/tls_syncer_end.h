#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "link/mailbox_syncer_end.h"
#include "link/tls_connection.h"

namespace archipelago::link {

// The syncer's end of pairs over TLS. Each has a mailbox in this process's memory and a thread that
// carries out the puts that come in and sends what is queued, so that nothing here waits.
class TlsSyncerEnd : public MailboxSyncerEnd {
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
  int data_in_flight(int peer) const override;
  bool drained() const override;

 private:
  class Peer;

  bool is_lost(int peer) const override;
  std::optional<Report> take_report(int peer) override;
  std::optional<ArrivedFragment> take_fragment(int peer, std::optional<int>& damaged_slot) override;
  void queue(int peer, const DownHeader& header, const Payload& data) override;
  Peer& peer_at(int peer) const { return *peers_.at(static_cast<std::size_t>(peer)); }

  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace archipelago::link
