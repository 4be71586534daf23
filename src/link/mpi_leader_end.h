#pragma once

#include <vector>

#include "link/mailbox_leader_end.h"
#include "link/mpi_pair.h"

namespace archipelago::link {

// The leader's end of a pair over MPI: puts with flush upwards, receives downwards.
class MpiLeaderEnd : public MailboxLeaderEnd {
 public:
  MpiLeaderEnd(MpiPair pair, const MailboxLayout& layout);
  ~MpiLeaderEnd() override;
  MpiLeaderEnd(const MpiLeaderEnd&) = delete;
  MpiLeaderEnd& operator=(const MpiLeaderEnd&) = delete;

  PeerState poll(std::vector<DownMessage>& messages) override;

  // Collective over the pair; only when both live.
  void close();

 private:
  enum class Receiving { header, data };

  bool put(std::initializer_list<Piece> pieces, const char* doing) override;
  bool put_flag(const std::uint64_t& flag, std::size_t offset, const char* doing) override;
  void receive_header();
  void receive_data();

  MpiPair pair_;
  Receiving receiving_ = Receiving::header;
  MPI_Request request_ = MPI_REQUEST_NULL;
  DownMessage incoming_;
};

}  // namespace archipelago::link
