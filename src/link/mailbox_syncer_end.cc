#include "link/mailbox_syncer_end.h"

#include <utility>

#include "core/log.h"

namespace archipelago::link {

MailboxSyncerEnd::MailboxSyncerEnd(const MailboxLayout& layout, std::string peer_name)
    : layout_(layout), peer_name_(std::move(peer_name)) {}

std::optional<Report> MailboxSyncerEnd::read_report(int peer) {
  if (is_lost(peer)) return std::nullopt;
  auto report = take_report(peer);
  if (report) bytes_up_ += static_cast<std::int64_t>(layout_.report_bytes());
  return report;
}

std::optional<ArrivedFragment> MailboxSyncerEnd::read_fragment(int peer) {
  if (is_lost(peer)) return std::nullopt;
  std::optional<int> damaged_slot;
  auto fragment = take_fragment(peer, damaged_slot);
  if (damaged_slot) {
    ++damaged_;
    log_warning("dropped a fragment with a damaged header of " + peer_name_ + " " +
                std::to_string(peer));
    acknowledge(peer, *damaged_slot);
  }
  if (fragment) bytes_up_ += static_cast<std::int64_t>(fragment->data.size());
  return fragment;
}

void MailboxSyncerEnd::acknowledge(int peer, int slot) {
  DownHeader header;
  header.kind = DownKind::acknowledge;
  header.slot = slot;
  send(peer, header, {});
}

void MailboxSyncerEnd::send(int peer, DownHeader header, const Payload& data) {
  if (is_lost(peer)) return;
  header.bytes = static_cast<std::int64_t>(data.bytes().size());
  header.checksum = data.checksum();
  bytes_down_ += static_cast<std::int64_t>(sizeof header) + header.bytes;
  queue(peer, header, data);
}

}  // namespace archipelago::link
