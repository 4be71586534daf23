#include "kernels/wire.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/checksum.h"

namespace archipelago::kernels {
namespace {

// Bytes of the scales of `count` elements, and of their codes.
std::int64_t scale_bytes(Encoding encoding, std::int64_t count) {
  const bool in_blocks = encoding == Encoding::int8 || encoding == Encoding::e3m0;
  return in_blocks ? 2 * ((count + kWireBlock - 1) / kWireBlock) : 0;
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

std::uint64_t wire_checksum(Encoding encoding, const std::byte* bytes, std::int64_t count) {
  std::vector<std::uint64_t> sums;
  for (std::int64_t begin = 0; begin < count; begin += kWirePart) {
    sums.push_back(part_checksum(encoding, bytes, count, begin));
  }
  return checksum(std::as_bytes(std::span(sums)));
}

}  // namespace archipelago::kernels
