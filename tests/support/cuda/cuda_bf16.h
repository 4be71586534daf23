#pragma once

#include <bit>
#include <cstdint>

// NOLINTBEGIN: CUDA's names
struct __nv_bfloat16 {
  std::uint16_t bits;
};

// To the nearest, ties to even; a NaN stays one.
inline __nv_bfloat16 __float2bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
// NOLINTEND
