#include "kernels/cuda/block.cuh"
#include "kernels/cuda/wire.h"
#include "kernels/wire_codes.h"

// A warp a block of an encoding: each lane has two of its elements, half a block apart, as e3m0's
// bytes have them.

namespace archipelago::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kHalf = kWireBlock / 2;
static_assert(kHalf == kWarp);

__device__ float difference(const float* values, const float* base, std::int64_t i) {
  return values[i] - base[i];
}

// The lane's part of a block's codes.
__device__ void write_codes(Int8Code, std::uint8_t* codes, std::int32_t low, std::int32_t high) {
  codes[lane()] = static_cast<std::uint8_t>(low);
  codes[lane() + kHalf] = static_cast<std::uint8_t>(high);
}
__device__ void write_codes(E3m0Code, std::uint8_t* codes, std::int32_t low, std::int32_t high) {
  codes[lane()] = static_cast<std::uint8_t>(low | (high << 4));
}
__device__ void read_codes(Int8Code, const std::uint8_t* codes, std::int32_t* both) {
  both[0] = static_cast<std::int8_t>(codes[lane()]);
  both[1] = static_cast<std::int8_t>(codes[lane() + kHalf]);
}
__device__ void read_codes(E3m0Code, const std::uint8_t* codes, std::int32_t* both) {
  both[0] = codes[lane()] & 15;
  both[1] = codes[lane()] >> 4;
}

template <typename Code>
__global__ void encode_blocks(std::uint16_t* scales, std::uint8_t* codes, const float* values,
                              const float* base, const float* residual_before, float* residual,
                              std::int64_t count, std::int64_t blocks) {
  for (std::int64_t block = grid_warp(); block < blocks; block += grid_threads() / kWarp) {
    float x[2] = {0, 0};
    std::uint32_t largest = 0;
    for (int half = 0; half < 2; ++half) {
      const std::int64_t i = block * kWireBlock + half * kHalf + lane();
      if (i >= count) continue;
      // A sum also with a residual of zero, since it makes -0 a 0.
      x[half] =
          difference(values, base, i) + (residual_before == nullptr ? 0.0F : residual_before[i]);
      const std::uint32_t magnitude = bits_as<std::uint32_t>(x[half]) & kMagnitudeBits;
      largest = magnitude > largest ? magnitude : largest;
    }
    const BlockScale how = block_scale<Code>(warp_max(largest));
    const float scale = from_bf16(how.bits);
    const float inverse = 1.0F / scale;
    std::int32_t both[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
      const std::int64_t i = block * kWireBlock + half * kHalf + lane();
      if (how.has_codes) both[half] = Code::code_of(x[half] * inverse);
      if (i >= count) continue;
      if (how.has_codes) x[half] -= Code::value_of(both[half], scale);
      residual[i] = how.keeps_rest ? x[half] : 0.0F;
    }
    if (lane() == 0) scales[block] = how.bits;
    write_codes(Code(), codes + block * Code::kBytes, both[0], both[1]);
  }
}

template <typename Code>
__global__ void decode_blocks(float* values, const std::uint16_t* scales, const std::uint8_t* codes,
                              std::int64_t count, std::int64_t blocks) {
  for (std::int64_t block = grid_warp(); block < blocks; block += grid_threads() / kWarp) {
    const float scale = from_bf16(scales[block]);
    std::int32_t both[2];
    read_codes(Code(), codes + block * Code::kBytes, both);
    for (int half = 0; half < 2; ++half) {
      const std::int64_t i = block * kWireBlock + half * kHalf + lane();
      if (i < count) values[i] = Code::value_of(both[half], scale);
    }
  }
}

__global__ void encode_bf16_elements(std::uint16_t* out, const float* values, const float* base,
                                     std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    out[i] = to_bf16(difference(values, base, i));
  }
}

__global__ void encode_f32_elements(float* out, const float* values, const float* base,
                                    std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    out[i] = difference(values, base, i);
  }
}

__global__ void decode_bf16_elements(float* values, const std::uint16_t* in, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) values[i] = from_bf16(in[i]);
}

__global__ void decode_f32_elements(float* values, const float* in, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) values[i] = in[i];
}

constexpr char kEncoding[] = "encoding a fragment";
constexpr char kDecoding[] = "decoding a fragment";

template <typename Code>
void start_encode_blocks(cudaStream_t stream, std::byte* bytes, const float* values,
                         const float* base, const float* residual_before, float* residual,
                         std::int64_t count) {
  const std::int64_t blocks = wire_blocks(count);
  launch(stream, kEncoding, encode_blocks<Code>, blocks_up_to(blocks, kWarps), kThreads, 0,
         reinterpret_cast<std::uint16_t*>(bytes),
         reinterpret_cast<std::uint8_t*>(bytes) + 2 * blocks, values, base, residual_before,
         residual, count, blocks);
}

template <typename Code>
void start_decode_blocks(cudaStream_t stream, float* values, const std::byte* bytes,
                         std::int64_t count) {
  const std::int64_t blocks = wire_blocks(count);
  launch(stream, kDecoding, decode_blocks<Code>, blocks_up_to(blocks, kWarps), kThreads, 0, values,
         reinterpret_cast<const std::uint16_t*>(bytes),
         reinterpret_cast<const std::uint8_t*>(bytes) + 2 * blocks, count, blocks);
}

}  // namespace

void encode(cudaStream_t stream, Encoding encoding, std::byte* bytes, const float* values,
            const float* base, const float* residual_before, float* residual, std::int64_t count) {
  const unsigned int blocks = blocks_up_to(count, kThreads);
  switch (encoding) {
    case Encoding::f32:
      return launch(stream, kEncoding, encode_f32_elements, blocks, kThreads, 0,
                    reinterpret_cast<float*>(bytes), values, base, count);
    case Encoding::bf16:
      return launch(stream, kEncoding, encode_bf16_elements, blocks, kThreads, 0,
                    reinterpret_cast<std::uint16_t*>(bytes), values, base, count);
    case Encoding::int8:
      return start_encode_blocks<Int8Code>(stream, bytes, values, base, residual_before, residual,
                                           count);
    case Encoding::e3m0:
      return start_encode_blocks<E3m0Code>(stream, bytes, values, base, residual_before, residual,
                                           count);
  }
}

void decode(cudaStream_t stream, Encoding encoding, float* values, const std::byte* bytes,
            std::int64_t count) {
  const unsigned int blocks = blocks_up_to(count, kThreads);
  switch (encoding) {
    case Encoding::f32:
      return launch(stream, kDecoding, decode_f32_elements, blocks, kThreads, 0, values,
                    reinterpret_cast<const float*>(bytes), count);
    case Encoding::bf16:
      return launch(stream, kDecoding, decode_bf16_elements, blocks, kThreads, 0, values,
                    reinterpret_cast<const std::uint16_t*>(bytes), count);
    case Encoding::int8:
      return start_decode_blocks<Int8Code>(stream, values, bytes, count);
    case Encoding::e3m0:
      return start_decode_blocks<E3m0Code>(stream, values, bytes, count);
  }
}

}  // namespace archipelago::kernels::cuda
