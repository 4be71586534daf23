#pragma once

#include <cstdint>

#include "link/mailbox.h"

namespace archipelago::link {

// What a pair over TLS carries. Up: puts into the syncer's mailbox of this pair, each a TlsPut and
// its bytes. Down: a DownHeader and its data. Both as they stand in memory: the two ends are the
// same build.
struct TlsPut {
  std::uint64_t offset = 0;  // in the mailbox
  std::uint64_t bytes = 0;
};

// Whether the put lies within the mailbox.
inline bool is_within(const TlsPut& put, const MailboxLayout& layout) {
  return put.offset <= layout.bytes() && put.bytes <= layout.bytes() - put.offset;
}

// Whether a message down is one that a syncer sends: its data is a fragment, whose encoding may be
// longer than that of those that go up, or something short.
inline bool is_sound(const DownHeader& header, const MailboxLayout& layout) {
  constexpr std::int64_t kShort = 16 << 20;
  constexpr std::int64_t kLongestOfShortest = 16;  // of the encodings
  return header.bytes >= 0 &&
         header.bytes <= kLongestOfShortest * layout.largest_fragment() + kShort &&
         header.slot >= 0 && header.slot < MailboxLayout::kSlots &&
         header.kind >= DownKind::assign && header.kind <= DownKind::fault;
}

}  // namespace archipelago::link
