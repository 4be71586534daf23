#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/wire.h"

namespace archipelago::fragment {

using kernels::encoded_size;
using kernels::Encoding;

// The encoding that an option names: f32, bf16, int8, e3m0.
Encoding encoding_named(std::string_view name);

// Whether an encoding is for differences alone, and what it loses of one message is added to the
// next.
constexpr bool has_error_feedback(Encoding encoding) {
  return kernels::is_in_blocks(encoding);
}

// Fragments as bytes and back. Not thread-safe.
class Codec {
 public:
  // `threads`: of this process, for large fragments.
  explicit Codec(int threads) : kernels_(kernels::make_cpu_wire_kernels(threads)) {}

  struct Encoded {
    std::vector<std::byte> bytes;
    std::uint64_t checksum;  // kernels::wire_checksum()
  };

  // The bytes of values - base + residual; `base` may be empty (zero), `residual` too, and is so
  // where the encoding has no error feedback; it becomes what these bytes lack. All others have the
  // same size.
  Encoded encode(Encoding encoding, std::span<const float> values, std::span<const float> base = {},
                 std::span<float> residual = {}) const;

  // What the bytes say, `count` elements: f32 where it stands, else decoded into `scratch`. f32
  // bytes are aligned as floats. Nothing when decode() would say false.
  std::optional<std::span<const float>> read(Encoding encoding, std::span<const std::byte> bytes,
                                             std::int64_t count, std::vector<float>& scratch) const;

  // The data of the version that an update leads to: what `before` says plus what `update` says,
  // encoded as `before`. Both have the length of `count` elements; nothing when they have not. The
  // same bits wherever it is computed.
  std::optional<std::vector<std::byte>> advance(Encoding whole, std::span<const std::byte> before,
                                                Encoding encoding,
                                                std::span<const std::byte> update,
                                                std::int64_t count) const;

  // values = base + what the bytes say; `base` may be empty (zero). False, and nothing done, unless
  // `bytes` has the length of so many elements: whoever sent them may be anybody.
  [[nodiscard]] bool decode(Encoding encoding, std::span<const std::byte> bytes,
                            std::span<const float> base, std::span<float> values) const;

 private:
  friend class Reader;

  std::unique_ptr<kernels::WireKernels> kernels_;
};

// Goes once over the bytes of a fragment, a part of kernels::kWirePart elements at a time: sums
// them up and decodes them, so that whatever else is to be done with a part finds it in the cache.
class Reader {
 public:
  // values = base + what the bytes say, as Codec::decode; or, where both are empty, the bytes are
  // only summed up. `bytes` has the length of `count` elements. All, the codec too, outlive this.
  Reader(const Codec& codec, Encoding encoding, std::span<const std::byte> bytes,
         std::int64_t count, std::span<const float> base = {}, std::span<float> values = {});

  bool done() const { return read_ == count_; }
  // Reads the next part; precondition !done(). The number of elements read so far.
  std::int64_t read_part();
  // The kernels::wire_checksum() of what was read.
  std::uint64_t checksum() const { return sum_.value(); }

 private:
  const Codec* codec_;
  Encoding encoding_;
  std::span<const std::byte> bytes_;
  std::int64_t count_;
  std::span<const float> base_;
  std::span<float> values_;
  std::int64_t read_ = 0;
  kernels::WireChecksum sum_;
};

}  // namespace archipelago::fragment
