#include "link/mpi_syncer_end.h"

#include <algorithm>
#include <utility>

namespace archipelago::link {

MpiSyncerEnd::~MpiSyncerEnd() {
  for (auto& peer : peers_) {
    if (peer->lost || !peer->sending.empty()) static_cast<void>(peer.release());
  }
}

int MpiSyncerEnd::add(MpiPair pair) {
  const MailboxReader reader(layout(), pair.window.memory());
  auto peer = std::make_unique<Peer>(Peer{std::move(pair), reader, false, MPI_REQUEST_NULL, 0, {}});
  mpi::check(MPI_Irecv(&peer->sentinel_byte, 1, MPI_BYTE, MpiPair::kLeader, kSentinelTag,
                       peer->pair.comm.get(), &peer->sentinel),
             "watching a leader");
  peers_.push_back(std::move(peer));
  return peers() - 1;
}

void MpiSyncerEnd::close() {
  for (auto& peer : peers_) {
    mpi::check(MPI_Cancel(&peer->sentinel), "ceasing to watch a leader");
    mpi::check(MPI_Wait(&peer->sentinel, MPI_STATUS_IGNORE), "ceasing to watch a leader");
    peer->pair.close();
  }
  peers_.clear();
}

void MpiSyncerEnd::poll(std::vector<int>& lost) {
  for (int i = 0; i < peers(); ++i) {
    Peer& peer = peer_at(i);
    if (peer.lost) continue;
    int done = 0;
    if (mpi::outcome_of(MPI_Test(&peer.sentinel, &done, MPI_STATUS_IGNORE), "watching a leader") !=
        mpi::Outcome::ok) {
      peer.lost = true;
    } else {
      finish_sends(peer);
    }
    if (peer.lost) lost.push_back(i);
  }
}

void MpiSyncerEnd::finish_sends(Peer& peer) {
  while (!peer.sending.empty() && !peer.lost) {
    int done = 0;
    // Each is tested alone: MPI_Testall would hide which error belongs to which.
    for (MPI_Request& request : peer.sending.front()->requests) {
      if (request == MPI_REQUEST_NULL) continue;
      done = 0;
      if (mpi::outcome_of(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "sending to a leader") !=
          mpi::Outcome::ok) {
        peer.lost = true;
        return;
      }
      if (!done) return;
    }
    peer.sending.pop_front();
  }
}

void MpiSyncerEnd::queue(int peer, const DownHeader& header, const Payload& data) {
  Peer& to = peer_at(peer);
  auto sending = std::make_unique<Sending>();
  sending->header = header;
  sending->data = data;
  int code = MPI_Isend(&sending->header, sizeof header, MPI_BYTE, MpiPair::kLeader, kHeaderTag,
                       to.pair.comm.get(), &sending->requests[0]);
  if (code == MPI_SUCCESS && header.bytes > 0) {
    code = MPI_Isend(data.bytes().data(), static_cast<int>(header.bytes), MPI_BYTE,
                     MpiPair::kLeader, kDataTag, to.pair.comm.get(), &sending->requests[1]);
  }
  to.sending.push_back(std::move(sending));
  // The sentinel will tell of a death; the memory stays as long as MPI may look at it.
  static_cast<void>(mpi::outcome_of(code, "sending to a leader"));
}

int MpiSyncerEnd::data_in_flight(int peer) const {
  const auto& sending = peer_at(peer).sending;
  return static_cast<int>(std::count_if(sending.begin(), sending.end(),
                                        [](const auto& s) { return s->header.bytes > 0; }));
}

bool MpiSyncerEnd::drained() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const auto& peer) { return peer->lost || peer->sending.empty(); });
}

}  // namespace archipelago::link
