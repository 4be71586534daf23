#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "link/link.h"
#include "link/mailbox.h"

namespace archipelago::link {

// A syncer's end that reads its leaders' mailboxes in its own memory, whatever writes them.
class MailboxSyncerEnd : public SyncerEnd {
 public:
  std::optional<Report> read_report(int peer) final;
  std::optional<ArrivedFragment> read_fragment(int peer) final;
  void acknowledge(int peer, int slot) final;
  void send(int peer, DownHeader header, const Payload& data = {}) final;
  std::int64_t damaged() const final { return damaged_; }
  std::int64_t bytes_up() const final { return bytes_up_; }
  std::int64_t bytes_down() const final { return bytes_down_; }

 protected:
  // `peer_name`: what a peer is called in the log.
  MailboxSyncerEnd(const MailboxLayout& layout, std::string peer_name);

  virtual bool is_lost(int peer) const = 0;
  // The two calls of MailboxReader of a peer that is not lost.
  virtual std::optional<Report> take_report(int peer) = 0;
  virtual std::optional<ArrivedFragment> take_fragment(int peer,
                                                       std::optional<int>& damaged_slot) = 0;
  // Queues a message, whose header is complete, to a peer that is not lost.
  virtual void queue(int peer, const DownHeader& header, const Payload& data) = 0;

  const MailboxLayout& layout() const { return layout_; }

 private:
  MailboxLayout layout_;
  std::string peer_name_;
  std::int64_t damaged_ = 0;
  std::int64_t bytes_up_ = 0;
  std::int64_t bytes_down_ = 0;
};

}  // namespace archipelago::link
