#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "link/link.h"
#include "link/message.h"

namespace archipelago::link {

// The memory of one pair that the syncer exposes and the leader writes:
//
//   report   sequence, checksum, fields, held[P]
//   slot 0   flag | header, checksum | data
//   slot 1   flag | header, checksum | data
//
// The leader writes a slot's header and data, makes sure they have arrived, then writes its flag:
// the number of the message, which the syncer has not seen yet. A slot is written again only after
// its acknowledgment. The header has a checksum of its own and holds that of the data, so that
// nothing here goes over the data; whoever reads a part checks its checksum, so a torn write is
// dropped, never used.
class MailboxLayout {
 public:
  static constexpr int kSlots = 2;

  // `largest_fragment`: bytes of the longest data.
  MailboxLayout(int fragments, std::int64_t largest_fragment);

  std::size_t bytes() const;
  std::size_t report_offset() const { return 0; }
  std::size_t report_bytes() const { return report_bytes_; }
  std::size_t flag_offset(int slot) const;
  std::size_t header_offset(int slot) const;
  std::size_t data_offset(int slot) const;
  std::int64_t largest_fragment() const { return largest_fragment_; }
  int fragments() const { return fragments_; }

 private:
  int fragments_;
  std::int64_t largest_fragment_;
  std::size_t report_bytes_;
  std::size_t slot_bytes_;
};

// The header of a slot as bytes: fields, the message's number, checksum over these.
struct SlotHeader {
  FragmentHeader fields;
  std::uint64_t number = 0;
  std::uint64_t checksum = 0;
};

// What a header's checksum has to be.
std::uint64_t header_checksum(const SlotHeader& header);

// The report's bytes, report_bytes() of them.
std::vector<std::byte> encode_report(const MailboxLayout& layout, const Report& report,
                                     std::uint64_t sequence);

// The syncer's side of one pair's memory.
class MailboxReader {
 public:
  MailboxReader(const MailboxLayout& layout, std::span<const std::byte> memory);

  // The report if its sequence is new and its checksum right (a report that is being overwritten
  // fails it and is read at the next call).
  std::optional<Report> read_report();

  // The next fragment whose flag is new. One with a damaged header is reported by `damaged_slot`
  // and skipped.
  std::optional<ArrivedFragment> read_fragment(std::optional<int>& damaged_slot);

 private:
  std::optional<ArrivedFragment> read_slot(int slot, std::uint64_t flag);

  MailboxLayout layout_;
  std::span<const std::byte> memory_;
  std::uint64_t last_report_ = 0;
  std::uint64_t last_flag_[MailboxLayout::kSlots] = {};
};

}  // namespace archipelago::link
