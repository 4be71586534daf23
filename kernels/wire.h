#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

// How fragments are encoded for the wire, and the kernels of the processor for it. A GPU's movers
// (kernels/mover.h) do the same with the same bits.

namespace archipelago::kernels {

// How the elements of a fragment travel. The numbers stand in messages.
//   f32    as they are
//   bf16   rounded to the nearest bfloat16, ties to even
//   int8   blocks of kWireBlock: step = bf16(max |x| / 127), x as the nearest of -127 .. 127 steps
//   e3m0   blocks of kWireBlock: scale = bf16(max |x|), x as sign and the nearest of 0 and
//          scale * 2^-6 .. scale * 2^0 (3 exponent bits, no mantissa; Douillard et al. 2025,
//          Streaming DiLoCo, section 2.3)
enum class Encoding : std::int32_t { f32 = 0, bf16 = 1, int8 = 2, e3m0 = 3 };

// Elements that share a scale. Widths of models are multiples of it, so that a block seldom holds
// parts of two tensors.
constexpr std::int64_t kWireBlock = 64;

constexpr std::int64_t wire_blocks(std::int64_t count) {
  return (count + kWireBlock - 1) / kWireBlock;
}

constexpr bool is_in_blocks(Encoding encoding) {
  return encoding == Encoding::int8 || encoding == Encoding::e3m0;
}

// Bytes of `count` elements: for block encodings the scale of each block (2 bytes), then the codes
// of each block (1 or 1/2 byte an element, the last block filled up with zeros; e3m0: byte j of a
// block holds elements j, in its low half, and j + kWireBlock / 2).
constexpr std::int64_t encoded_size(Encoding encoding, std::int64_t count) {
  const std::int64_t blocks = wire_blocks(count);
  switch (encoding) {
    case Encoding::f32:
      return 4 * count;
    case Encoding::bf16:
      return 2 * count;
    case Encoding::int8:
      return blocks * (2 + kWireBlock);
    case Encoding::e3m0:
      return blocks * (2 + kWireBlock / 2);
  }
  return 0;
}

// Elements that are worked on, and summed up, together: they and all that belongs to them stay in
// the second-level cache meanwhile. A multiple of kWireBlock.
constexpr std::int64_t kWirePart = 16384;

// Checksum of the bytes of the part that begins at element `begin`, a multiple of kWirePart, of
// `count`: of its codes, with that of its scales as the seed.
std::uint64_t part_checksum(Encoding encoding, const std::byte* bytes, std::int64_t count,
                            std::int64_t begin);

// Checksum of an encoded fragment: that of its parts' checksums.
std::uint64_t wire_checksum(std::span<const std::uint64_t> parts);
std::uint64_t wire_checksum(Encoding encoding, const std::byte* bytes, std::int64_t count);

// The same of bytes that come one after the other, taken while they are in the cache.
class WireChecksum {
 public:
  // `bytes`, of `count` elements, outlive this.
  WireChecksum(Encoding encoding, const std::byte* bytes, std::int64_t count)
      : encoding_(encoding), bytes_(bytes), count_(count) {}

  // Adds the whole parts among the elements before `end`: those are there.
  void add_until(std::int64_t end);
  std::uint64_t value() const { return wire_checksum(parts_); }

 private:
  Encoding encoding_;
  const std::byte* bytes_;
  std::int64_t count_;
  std::int64_t added_ = 0;
  std::vector<std::uint64_t> parts_;
};

class WireKernels {
 public:
  virtual ~WireKernels() = default;

  // bytes[encoded_size(count)] = x[count], where x = values - base + residual; `base` may be null
  // (zero). `residual`: for block encodings only, else null; becomes x minus what decode() makes of
  // the bytes (error feedback: Seide et al. 2014, section 3.2). A block with an element that is not
  // finite decodes to none that is, and its residual is 0. Returns the wire_checksum() of the
  // bytes.
  virtual std::uint64_t encode(Encoding encoding, std::byte* bytes, const float* values,
                               const float* base, float* residual, std::int64_t count) = 0;

  // values[count] = base + what `bytes` stands for; `base` may be null (zero) and may be `values`.
  // Any bytes stand for something.
  virtual void decode(Encoding encoding, float* values, const float* base, const std::byte* bytes,
                      std::int64_t count) = 0;

  // The same of the part that begins at element `begin`, a multiple of kWirePart, alone; on the
  // caller's thread.
  virtual void decode_part(Encoding encoding, float* values, const float* base,
                           const std::byte* bytes, std::int64_t count, std::int64_t begin) = 0;
};

// On up to `threads` >= 1 threads of this process; the bits don't depend on how many.
std::unique_ptr<WireKernels> make_cpu_wire_kernels(int threads);

}  // namespace archipelago::kernels
