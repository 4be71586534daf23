#include "kernels/wire.h"

#include <algorithm>
#include <span>

#include "core/checksum.h"

namespace archipelago::kernels {
namespace {

// Bytes of the scales of `count` elements, and of their codes.
std::int64_t scale_bytes(Encoding encoding, std::int64_t count) {
  return is_in_blocks(encoding) ? 2 * wire_blocks(count) : 0;
}

std::int64_t code_bytes(Encoding encoding, std::int64_t count) {
  return encoded_size(encoding, count) - scale_bytes(encoding, count);
}

std::uint64_t checksum_of(const std::byte* bytes, std::int64_t size, std::uint64_t seed) {
  return checksum(std::span(bytes, static_cast<std::size_t>(size)), seed);
}

}  // namespace

std::uint64_t part_checksum(Encoding encoding, const std::byte* bytes, std::int64_t count,
                            std::int64_t begin) {
  const std::int64_t size = std::min(kWirePart, count - begin);
  const std::byte* scales = bytes + scale_bytes(encoding, begin);
  const std::byte* codes = bytes + scale_bytes(encoding, count) + code_bytes(encoding, begin);
  const std::uint64_t sum = checksum_of(scales, scale_bytes(encoding, size), 0);
  return checksum_of(codes, code_bytes(encoding, size), sum);
}

std::uint64_t wire_checksum(std::span<const std::uint64_t> parts) {
  return checksum(std::as_bytes(parts));
}

std::uint64_t wire_checksum(Encoding encoding, const std::byte* bytes, std::int64_t count) {
  WireChecksum sum(encoding, bytes, count);
  sum.add_until(count);
  return sum.value();
}

void WireChecksum::add_until(std::int64_t end) {
  while (added_ < count_ && std::min(added_ + kWirePart, count_) <= end) {
    parts_.push_back(part_checksum(encoding_, bytes_, count_, added_));
    added_ = std::min(added_ + kWirePart, count_);
  }
}

}  // namespace archipelago::kernels
