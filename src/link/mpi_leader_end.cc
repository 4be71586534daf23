#include "link/mpi_leader_end.h"

#include <algorithm>
#include <utility>

#include "core/checksum.h"
#include "core/log.h"

namespace archipelago::link {

MpiLeaderEnd::MpiLeaderEnd(MpiPair pair, const MailboxLayout& layout)
    : pair_(std::move(pair)), layout_(layout) {
  slot_free_.fill(true);
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

PeerState MpiLeaderEnd::put_report(const Report& report) {
  if (syncer_lost_) return PeerState::lost;
  const auto bytes = encode_report(layout_, report, ++reports_);
  bytes_up_ += static_cast<std::int64_t>(bytes.size());
  const auto outcome = pair_.window.put({{bytes, layout_.report_offset()}}, MpiPair::kSyncer,
                                        "putting a report to the syncer");
  syncer_lost_ = outcome != mpi::Outcome::ok;
  return syncer_lost_ ? PeerState::lost : PeerState::alive;
}

int MpiLeaderEnd::free_slots() const {
  return static_cast<int>(std::count(slot_free_.begin(), slot_free_.end(), true));
}

PeerState MpiLeaderEnd::put_fragment(const FragmentHeader& header,
                                     std::span<const std::byte> data) {
  if (syncer_lost_) return PeerState::lost;
  const int slot = slot_free_[0] ? 0 : 1;
  slot_free_[static_cast<std::size_t>(slot)] = false;
  SlotHeader slot_header{header, ++fragments_, 0};
  slot_header.fields.bytes = static_cast<std::int64_t>(data.size());
  slot_header.checksum = header_checksum(slot_header);
  bytes_up_ += static_cast<std::int64_t>(sizeof slot_header + data.size());

  const std::string doing = "putting a fragment to the syncer";
  const auto put = [&](std::initializer_list<mpi::Window::Piece> pieces) {
    return pair_.window.put(pieces, MpiPair::kSyncer, doing) == mpi::Outcome::ok;
  };
  const Disturbance disturbance = std::exchange(disturbance_, {});
  bool sent = put({{data, layout_.data_offset(slot)},
                   {std::as_bytes(std::span(&slot_header, 1)), layout_.header_offset(slot)}});
  if (sent && disturbance.corrupt && !data.empty()) {
    const std::byte wrong = data[0] ^ std::byte{1};
    sent = put({{std::span(&wrong, 1), layout_.data_offset(slot)}});
  }
  if (disturbance.inside) disturbance.inside();
  // The flag goes last, after a flush: whoever sees it sees the data. Nobody waits for its arrival,
  // which the acknowledgment tells anyway.
  flag_ = slot_header.number;
  sent = sent &&
         pair_.window.begin_put({std::as_bytes(std::span(&flag_, 1)), layout_.flag_offset(slot)},
                                MpiPair::kSyncer, doing) == mpi::Outcome::ok;
  syncer_lost_ = !sent;
  return syncer_lost_ ? PeerState::lost : PeerState::alive;
}

PeerState MpiLeaderEnd::poll(std::vector<DownMessage>& messages) {
  while (!syncer_lost_) {
    int done = 0;
    const auto outcome =
        mpi::outcome_of(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "receiving from the syncer");
    if (outcome != mpi::Outcome::ok) {
      syncer_lost_ = true;
      break;
    }
    if (!done) return PeerState::alive;
    if (receiving_ == Receiving::header && incoming_.header.bytes > 0) {
      receive_data();
    } else {
      deliver(messages);
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

void MpiLeaderEnd::deliver(std::vector<DownMessage>& messages) {
  if (incoming_.header.kind == DownKind::acknowledge) {
    slot_free_.at(static_cast<std::size_t>(incoming_.header.slot)) = true;
    return;
  }
  if (checksum(incoming_.data) != incoming_.header.checksum) {
    log_warning("dropped a damaged message from the syncer, fragment " +
                std::to_string(incoming_.header.fragment));
    return;
  }
  messages.push_back(std::move(incoming_));
}

}  // namespace archipelago::link
