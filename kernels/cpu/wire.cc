#include "kernels/wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/wire_codes.h"

namespace archipelago::kernels {
namespace {

// Elements that are worth a thread.
constexpr std::int64_t kThreadElements = 1 << 15;

template <typename Element>
using Block = std::array<Element, kWireBlock>;

// What an encoder is given, and x = values - base + residual of a run of it.
struct Source {
  const float* values;
  const float* base;
  float* residual;

  void load(std::int64_t begin, std::int64_t size, float* x) const {
    std::memcpy(x, values + begin, static_cast<std::size_t>(size) * sizeof(float));
    if (base != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) x[i] -= base[begin + i];
    }
    if (residual != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) x[i] += residual[begin + i];
    }
  }
};

// The largest magnitude of a block; kInfinityBits or more when an element is not finite.
std::uint32_t largest_magnitude(const Block<float>& x) {
  Block<std::uint32_t> bits;
  std::memcpy(bits.data(), x.data(), sizeof bits);
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint32_t magnitude = bits[i] & kMagnitudeBits;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

struct Int8 : Int8Code {
  static void encode(const Block<float>& x, float inverse, std::byte* bytes) {
    Block<std::int8_t> codes;
#pragma omp simd
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes[i] = static_cast<std::int8_t>(code_of(x[i] * inverse));
    }
    std::memcpy(bytes, codes.data(), sizeof codes);
  }

  static void decode(const std::byte* bytes, float scale, Block<float>& x) {
    Block<std::int8_t> codes;
    std::memcpy(codes.data(), bytes, sizeof codes);
#pragma omp simd
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = value_of(codes[i], scale);
  }
};

struct E3m0 : E3m0Code {
  static void encode(const Block<float>& x, float inverse, std::byte* bytes) {
    Block<std::int32_t> codes;
#pragma omp simd
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = code_of(x[i] * inverse);
    std::array<std::uint8_t, kBytes> packed;
#pragma omp simd
    for (std::size_t j = 0; j < packed.size(); ++j) {
      packed[j] = static_cast<std::uint8_t>(codes[j] | (codes[j + packed.size()] << 4));
    }
    std::memcpy(bytes, packed.data(), sizeof packed);
  }

  static void decode(const std::byte* bytes, float scale, Block<float>& x) {
    std::array<std::uint8_t, kBytes> packed;
    std::memcpy(packed.data(), bytes, sizeof packed);
#pragma omp simd
    for (std::size_t j = 0; j < packed.size(); ++j) {
      x[j] = value_of(packed[j] & 15, scale);
      x[j + packed.size()] = value_of(packed[j] >> 4, scale);
    }
  }
};

// Encodes a whole block and leaves in x what decoding does not give back.
template <typename Code>
void encode_block(Block<float>& x, std::byte* scale_bytes, std::byte* code_bytes) {
  const BlockScale how = block_scale<Code>(largest_magnitude(x));
  std::memcpy(scale_bytes, &how.bits, sizeof how.bits);
  if (!how.has_codes) {
    std::memset(code_bytes, 0, Code::kBytes);
    if (!how.keeps_rest) x.fill(0);
    return;
  }
  const float scale = from_bf16(how.bits);
  Code::encode(x, 1 / scale, code_bytes);
  Block<float> decoded;
  Code::decode(code_bytes, scale, decoded);
#pragma omp simd
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= decoded[i];
}

// Where the parts of a block's code stand in the bytes of `count` elements.
template <typename Code, typename Byte>
struct Parts {
  Byte* scale;
  Byte* codes;

  Parts(Byte* bytes, std::int64_t count, std::int64_t block)
      : scale(bytes + 2 * block), codes(bytes + 2 * wire_blocks(count) + Code::kBytes * block) {}
};

template <typename Code>
void encode_blocks(const Source& source, std::byte* bytes, std::int64_t count, Range range) {
  for (std::int64_t begin = range.begin; begin < range.end; begin += kWireBlock) {
    const std::int64_t size = std::min(kWireBlock, range.end - begin);
    alignas(64) Block<float> x;
    if (size < kWireBlock) x.fill(0);
    source.load(begin, size, x.data());
    const Parts<Code, std::byte> parts(bytes, count, begin / kWireBlock);
    encode_block<Code>(x, parts.scale, parts.codes);
    if (source.residual != nullptr) {
      std::memcpy(source.residual + begin, x.data(),
                  static_cast<std::size_t>(size) * sizeof(float));
    }
  }
}

// values = x, or base + x.
void put(float* values, const float* base, const float* x, std::int64_t size) {
  if (base == nullptr) {
    std::memcpy(values, x, static_cast<std::size_t>(size) * sizeof(float));
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) values[i] = base[i] + x[i];
}

template <typename Code>
void decode_blocks(float* values, const float* base, const std::byte* bytes, std::int64_t count,
                   Range range) {
  for (std::int64_t begin = range.begin; begin < range.end; begin += kWireBlock) {
    const Parts<Code, const std::byte> parts(bytes, count, begin / kWireBlock);
    std::uint16_t scale_bits = 0;
    std::memcpy(&scale_bits, parts.scale, sizeof scale_bits);
    alignas(64) Block<float> x;
    Code::decode(parts.codes, from_bf16(scale_bits), x);
    put(values + begin, base == nullptr ? nullptr : base + begin, x.data(),
        std::min(kWireBlock, range.end - begin));
  }
}

void encode_f32(const Source& source, std::byte* bytes, Range range) {
  Block<float> x;
  for (std::int64_t begin = range.begin; begin < range.end; begin += kWireBlock) {
    const std::int64_t size = std::min(kWireBlock, range.end - begin);
    source.load(begin, size, x.data());
    std::memcpy(bytes + 4 * begin, x.data(), static_cast<std::size_t>(4 * size));
  }
}

void encode_bf16(const Source& source, std::byte* bytes, Range range) {
  Block<float> x;
  Block<std::uint16_t> codes;
  for (std::int64_t begin = range.begin; begin < range.end; begin += kWireBlock) {
    const std::int64_t size = std::min(kWireBlock, range.end - begin);
    source.load(begin, size, x.data());
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) codes[i] = to_bf16(x[i]);
    std::memcpy(bytes + 2 * begin, codes.data(), static_cast<std::size_t>(2 * size));
  }
}

void decode_f32(float* values, const float* base, const std::byte* bytes, Range range) {
  Block<float> x;
  for (std::int64_t begin = range.begin; begin < range.end; begin += kWireBlock) {
    const std::int64_t size = std::min(kWireBlock, range.end - begin);
    std::memcpy(x.data(), bytes + 4 * begin, static_cast<std::size_t>(4 * size));
    put(values + begin, base == nullptr ? nullptr : base + begin, x.data(), size);
  }
}

void decode_bf16(float* values, const float* base, const std::byte* bytes, Range range) {
  Block<float> x;
  Block<std::uint16_t> codes;
  for (std::int64_t begin = range.begin; begin < range.end; begin += kWireBlock) {
    const std::int64_t size = std::min(kWireBlock, range.end - begin);
    std::memcpy(codes.data(), bytes + 2 * begin, static_cast<std::size_t>(2 * size));
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) x[i] = from_bf16(codes[i]);
    put(values + begin, base == nullptr ? nullptr : base + begin, x.data(), size);
  }
}

void encode_range(Encoding encoding, const Source& source, std::byte* bytes, std::int64_t count,
                  Range range) {
  switch (encoding) {
    case Encoding::f32:
      return encode_f32(source, bytes, range);
    case Encoding::bf16:
      return encode_bf16(source, bytes, range);
    case Encoding::int8:
      return encode_blocks<Int8>(source, bytes, count, range);
    case Encoding::e3m0:
      return encode_blocks<E3m0>(source, bytes, count, range);
  }
}

void decode_range(Encoding encoding, float* values, const float* base, const std::byte* bytes,
                  std::int64_t count, Range range) {
  switch (encoding) {
    case Encoding::f32:
      return decode_f32(values, base, bytes, range);
    case Encoding::bf16:
      return decode_bf16(values, base, bytes, range);
    case Encoding::int8:
      return decode_blocks<Int8>(values, base, bytes, count, range);
    case Encoding::e3m0:
      return decode_blocks<E3m0>(values, base, bytes, count, range);
  }
}

class CpuWireKernels final : public WireKernels {
 public:
  explicit CpuWireKernels(int threads) : threads_(threads) {}

  std::uint64_t encode(Encoding encoding, std::byte* bytes, const float* values, const float* base,
                       float* residual, std::int64_t count) override {
    const Source source{values, base, residual};
    std::vector<std::uint64_t> sums(static_cast<std::size_t>((count + kWirePart - 1) / kWirePart));
    for_ranges(count, kWirePart, [&](Range range) {
      for (std::int64_t begin = range.begin; begin < range.end; begin += kWirePart) {
        const Range part{begin, std::min(begin + kWirePart, range.end)};
        encode_range(encoding, source, bytes, count, part);
        sums[static_cast<std::size_t>(begin / kWirePart)] =
            part_checksum(encoding, bytes, count, begin);
      }
    });
    return wire_checksum(sums);
  }

  void decode(Encoding encoding, float* values, const float* base, const std::byte* bytes,
              std::int64_t count) override {
    for_ranges(count, kWireBlock,
               [&](Range range) { decode_range(encoding, values, base, bytes, count, range); });
  }

  void decode_part(Encoding encoding, float* values, const float* base, const std::byte* bytes,
                   std::int64_t count, std::int64_t begin) override {
    decode_range(encoding, values, base, bytes, count, {begin, std::min(begin + kWirePart, count)});
  }

 private:
  template <typename Body>
  void for_ranges(std::int64_t count, std::int64_t grain, const Body& body) const {
    const auto worth = static_cast<int>(std::min<std::int64_t>(threads_, count / kThreadElements));
    parallel_ranges(std::max(worth, 1), count, grain, [&](int, Range range) { body(range); });
  }

  int threads_;
};

}  // namespace

std::unique_ptr<WireKernels> make_cpu_wire_kernels(int threads) {
  return std::make_unique<CpuWireKernels>(threads);
}

}  // namespace archipelago::kernels
