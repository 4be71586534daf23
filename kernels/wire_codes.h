#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/wire.h"

// The encodings' numbers, element by element: the one source of their bits for every device. Where
// a product is rounded at all, its operands did not come from an encoder; so it makes no difference
// whether a compiler joins it with the sum that follows.

#ifdef __CUDACC__
#define ARCHIPELAGO_ANYWHERE __host__ __device__
#else
#define ARCHIPELAGO_ANYWHERE
#endif

namespace archipelago::kernels {

constexpr std::uint32_t kMagnitudeBits = 0x7FFFFFFF;  // all of an f32 but its sign
constexpr std::uint32_t kInfinityBits = 0x7F800000;

// std::bit_cast(), which code for a GPU cannot call.
template <typename To, typename From>
ARCHIPELAGO_ANYWHERE constexpr To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// To the nearest, ties to even; a NaN stays one.
ARCHIPELAGO_ANYWHERE inline std::uint16_t to_bf16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40;
  return static_cast<std::uint16_t>((bits & kMagnitudeBits) > kInfinityBits ? nan : rounded);
}

ARCHIPELAGO_ANYWHERE inline float from_bf16(std::uint16_t bits) {
  return bits_as<float>(static_cast<std::uint32_t>(bits) << 16);
}

// A block's code: what the scale is of the block's largest magnitude, an element's number in units
// of the scale, and what that stands for.
struct Int8Code {
  static constexpr std::int64_t kBytes = kWireBlock;  // of a block
  static constexpr float kLargest = 127;

  ARCHIPELAGO_ANYWHERE static float scale_of(float largest) { return largest / kLargest; }

  ARCHIPELAGO_ANYWHERE static std::int32_t code_of(float units) {
    const float steps = nearbyintf(units);
    const float low = steps < -kLargest ? -kLargest : steps;
    return static_cast<std::int32_t>(low > kLargest ? kLargest : low);
  }

  ARCHIPELAGO_ANYWHERE static float value_of(std::int32_t code, float scale) {
    return scale * static_cast<float>(code);
  }
};

struct E3m0Code {
  static constexpr std::int64_t kBytes = kWireBlock / 2;  // of a block
  static constexpr std::int32_t kLargest = 7;             // code of the scale itself; 0 is zero
  static constexpr std::int32_t kZeroExponent = 127 - kLargest;   // as bits of an f32
  static constexpr std::int32_t kHalfSmallest = (127 - 7) << 23;  // 2^-7, between 0 and 2^-6
  static constexpr std::int32_t kSign = 8;

  ARCHIPELAGO_ANYWHERE static float scale_of(float largest) { return largest; }

  ARCHIPELAGO_ANYWHERE static std::int32_t code_of(float units) {
    const auto bits = bits_as<std::int32_t>(units);
    const std::int32_t magnitude = bits & static_cast<std::int32_t>(kMagnitudeBits);
    // Adding half a mantissa carries into the exponent from 1.5 times a power of two on.
    std::int32_t code = ((magnitude + (1 << 22)) >> 23) - kZeroExponent;
    const std::int32_t smallest = magnitude >= kHalfSmallest ? 1 : 0;
    code = code < smallest ? smallest : code;
    code = code > kLargest ? kLargest : code;
    return code | (bits < 0 ? kSign : 0);
  }

  ARCHIPELAGO_ANYWHERE static float value_of(std::int32_t code, float scale) {
    const std::int32_t magnitude = code & kLargest;
    const std::int32_t power = magnitude == 0 ? 0 : (magnitude + kZeroExponent) << 23;
    return scale * bits_as<float>(power | ((code & kSign) << 28));
  }
};

// How a block is sent.
struct BlockScale {
  std::uint16_t bits;  // as bfloat16
  bool has_codes;      // else all of them are 0
  bool keeps_rest;     // else the residual is 0
};

// `largest`: the bits of the largest magnitude, kInfinityBits or more where an element is not
// finite. Such a block gets a scale that is not a number. Where the scale's inverse would not be
// finite, the block is sent as zeros and its residual keeps it.
template <typename Code>
ARCHIPELAGO_ANYWHERE BlockScale block_scale(std::uint32_t largest) {
  constexpr std::uint16_t kQuietNan = 0x7FC0;
  constexpr float kSmallest = 0x1p-120F;
  const std::uint16_t bits = to_bf16(Code::scale_of(bits_as<float>(largest)));
  if (bits >= (kInfinityBits >> 16)) return {kQuietNan, false, false};
  if (from_bf16(bits) < kSmallest) return {0, false, true};
  return {bits, true, true};
}

}  // namespace archipelago::kernels
