#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "link/link.h"
#include "link/mailbox.h"
#include "mpi/window.h"

namespace archipelago::link {

// A leader's end that writes into the syncer's mailbox by puts, whatever carries them.
class MailboxLeaderEnd : public LeaderEnd {
 public:
  PeerState put_report(const Report& report) override;
  bool slot_free() const override { return free_slots() > 0; }
  int free_slots() const;
  PeerState put_fragment(const FragmentHeader& header, std::span<const std::byte> data) override;
  void disturb_next(Disturbance disturbance) override { disturbance_ = std::move(disturbance); }
  std::int64_t bytes_up() const override { return bytes_up_; }

 protected:
  using Piece = mpi::Window::Piece;  // its offset: in the mailbox

  explicit MailboxLeaderEnd(const MailboxLayout& layout);

  // Writes the pieces into the mailbox; `doing` is for errors. False once the syncer is lost. What
  // is put later arrives later.
  virtual bool put(std::initializer_list<Piece> pieces, const char* doing) = 0;
  // The same for a slot's flag, whose arrival nobody waits for: `flag` lives until the next one.
  virtual bool put_flag(const std::uint64_t& flag, std::size_t offset, const char* doing) = 0;

  // Takes in a message that has come whole, damaged or not.
  void deliver(DownMessage message, std::vector<DownMessage>& messages);

  void lose_syncer() { syncer_lost_ = true; }
  bool syncer_lost() const { return syncer_lost_; }
  PeerState state() const { return syncer_lost_ ? PeerState::lost : PeerState::alive; }

 private:
  MailboxLayout layout_;
  std::uint64_t reports_ = 0;
  std::uint64_t fragments_ = 0;
  std::uint64_t flag_ = 0;  // of the last fragment, on its way
  std::array<bool, MailboxLayout::kSlots> slot_free_{};
  Disturbance disturbance_;
  bool syncer_lost_ = false;
  std::int64_t bytes_up_ = 0;
};

}  // namespace archipelago::link
