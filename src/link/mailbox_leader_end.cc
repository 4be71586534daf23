#include "link/mailbox_leader_end.h"

#include <algorithm>
#include <string>

#include "core/checksum.h"
#include "core/log.h"

namespace archipelago::link {

MailboxLeaderEnd::MailboxLeaderEnd(const MailboxLayout& layout) : layout_(layout) {
  slot_free_.fill(true);
}

PeerState MailboxLeaderEnd::put_report(const Report& report) {
  if (syncer_lost_) return PeerState::lost;
  const auto bytes = encode_report(layout_, report, ++reports_);
  bytes_up_ += static_cast<std::int64_t>(bytes.size());
  syncer_lost_ = !put({{bytes, layout_.report_offset()}}, "putting a report to the syncer");
  return state();
}

int MailboxLeaderEnd::free_slots() const {
  return static_cast<int>(std::count(slot_free_.begin(), slot_free_.end(), true));
}

PeerState MailboxLeaderEnd::put_fragment(const FragmentHeader& header,
                                         std::span<const std::byte> data) {
  if (syncer_lost_) return PeerState::lost;
  constexpr char kDoing[] = "putting a fragment to the syncer";
  const int slot = slot_free_[0] ? 0 : 1;
  slot_free_[static_cast<std::size_t>(slot)] = false;
  SlotHeader slot_header{header, ++fragments_, 0};
  slot_header.fields.bytes = static_cast<std::int64_t>(data.size());
  slot_header.checksum = header_checksum(slot_header);
  bytes_up_ += static_cast<std::int64_t>(sizeof slot_header + data.size());

  const Disturbance disturbance = std::exchange(disturbance_, {});
  bool sent = put({{data, layout_.data_offset(slot)},
                   {std::as_bytes(std::span(&slot_header, 1)), layout_.header_offset(slot)}},
                  kDoing);
  if (sent && disturbance.corrupt && !data.empty()) {
    const std::byte wrong = data[0] ^ std::byte{1};
    sent = put({{std::span(&wrong, 1), layout_.data_offset(slot)}}, kDoing);
  }
  if (disturbance.inside) disturbance.inside();
  // The flag goes last: whoever sees it sees the data. The acknowledgment tells of its arrival.
  flag_ = slot_header.number;
  syncer_lost_ = !sent || !put_flag(flag_, layout_.flag_offset(slot), kDoing);
  return state();
}

void MailboxLeaderEnd::deliver(DownMessage message, std::vector<DownMessage>& messages) {
  if (message.header.kind == DownKind::acknowledge) {
    slot_free_.at(static_cast<std::size_t>(message.header.slot)) = true;
    return;
  }
  if (checksum(message.data) != message.header.checksum) {
    log_warning("dropped a damaged message from the syncer, fragment " +
                std::to_string(message.header.fragment));
    return;
  }
  messages.push_back(std::move(message));
}

}  // namespace archipelago::link
