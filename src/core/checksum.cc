#include "core/checksum.h"

// Compiled here, for this machine's vector instructions: several times faster than the library's.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace archipelago {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string to_hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) hex[static_cast<std::size_t>(i)] = kDigits[value & 15];
  return hex;
}

}  // namespace archipelago
