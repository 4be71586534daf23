#include "link/mpi_leader_end.h"

#include <span>
#include <utility>

namespace archipelago::link {

MpiLeaderEnd::MpiLeaderEnd(MpiPair pair, const MailboxLayout& layout)
    : MailboxLeaderEnd(layout), pair_(std::move(pair)) {
  receive_header();
}

// A receive that is still open belongs to a pair whose other end may be dead: it is left alone.
MpiLeaderEnd::~MpiLeaderEnd() = default;

void MpiLeaderEnd::close() {
  if (request_ != MPI_REQUEST_NULL) {
    mpi::check(MPI_Cancel(&request_), "cancelling the receive from the syncer");
    mpi::check(MPI_Wait(&request_, MPI_STATUS_IGNORE), "cancelling the receive from the syncer");
  }
  pair_.close();
}

bool MpiLeaderEnd::put(std::initializer_list<Piece> pieces, const char* doing) {
  return pair_.window.put(pieces, MpiPair::kSyncer, doing) == mpi::Outcome::ok;
}

bool MpiLeaderEnd::put_flag(const std::uint64_t& flag, std::size_t offset, const char* doing) {
  return pair_.window.begin_put({std::as_bytes(std::span(&flag, 1)), offset}, MpiPair::kSyncer,
                                doing) == mpi::Outcome::ok;
}

PeerState MpiLeaderEnd::poll(std::vector<DownMessage>& messages) {
  while (!syncer_lost()) {
    int done = 0;
    const auto outcome =
        mpi::outcome_of(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "receiving from the syncer");
    if (outcome != mpi::Outcome::ok) {
      lose_syncer();
      break;
    }
    if (!done) return PeerState::alive;
    if (receiving_ == Receiving::header && incoming_.header.bytes > 0) {
      receive_data();
    } else {
      deliver(std::move(incoming_), messages);
      receive_header();
    }
  }
  return PeerState::lost;
}

void MpiLeaderEnd::receive_header() {
  receiving_ = Receiving::header;
  incoming_ = {};
  mpi::check(MPI_Irecv(&incoming_.header, sizeof incoming_.header, MPI_BYTE, MpiPair::kSyncer,
                       kHeaderTag, pair_.comm.get(), &request_),
             "waiting for the syncer's next message");
}

void MpiLeaderEnd::receive_data() {
  receiving_ = Receiving::data;
  incoming_.data.resize(static_cast<std::size_t>(incoming_.header.bytes));
  mpi::check(MPI_Irecv(incoming_.data.data(), static_cast<int>(incoming_.data.size()), MPI_BYTE,
                       MpiPair::kSyncer, kDataTag, pair_.comm.get(), &request_),
             "waiting for a fragment from the syncer");
}

}  // namespace archipelago::link
