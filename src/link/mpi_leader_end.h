#pragma once

#include <array>
#include <utility>
#include <vector>

#include "link/link.h"
#include "link/mpi_pair.h"

namespace archipelago::link {

// The leader's end of a pair over MPI: puts with flush upwards, receives downwards.
class MpiLeaderEnd : public LeaderEnd {
 public:
  MpiLeaderEnd(MpiPair pair, const MailboxLayout& layout);
  ~MpiLeaderEnd() override;
  MpiLeaderEnd(const MpiLeaderEnd&) = delete;
  MpiLeaderEnd& operator=(const MpiLeaderEnd&) = delete;

  PeerState put_report(const Report& report) override;
  bool slot_free() const override { return free_slots() > 0; }
  int free_slots() const;
  PeerState put_fragment(const FragmentHeader& header, std::span<const std::byte> data) override;
  void disturb_next(Disturbance disturbance) override { disturbance_ = std::move(disturbance); }
  PeerState poll(std::vector<DownMessage>& messages) override;
  std::int64_t bytes_up() const override { return bytes_up_; }

  // Collective over the pair; only when both live.
  void close();

 private:
  enum class Receiving { header, data };

  void receive_header();
  void receive_data();
  void deliver(std::vector<DownMessage>& messages);

  MpiPair pair_;
  MailboxLayout layout_;
  Receiving receiving_ = Receiving::header;
  MPI_Request request_ = MPI_REQUEST_NULL;
  DownMessage incoming_;
  std::uint64_t reports_ = 0;
  std::uint64_t fragments_ = 0;
  std::uint64_t flag_ = 0;  // of the last fragment, on its way
  std::array<bool, MailboxLayout::kSlots> slot_free_{};
  Disturbance disturbance_;
  bool syncer_lost_ = false;
  std::int64_t bytes_up_ = 0;
};

}  // namespace archipelago::link
