#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/wire.h"

namespace archipelago::kernels {

// A run of elements in a flat array.
struct Part {
  std::int64_t offset;
  std::int64_t size;
};

// Elements of all of them.
std::int64_t total_size(std::span<const Part> ranges);

// A fragment in the host's memory, pinned where it comes from a GPU; shared with who sends it on.
class HostArray {
 public:
  // Takes `memory` of `capacity` floats, which `release` gives back.
  HostArray(float* memory, std::int64_t capacity, void (*release)(float*))
      : memory_(memory), capacity_(capacity), release_(release) {}
  ~HostArray() { release_(memory_); }
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;

  std::int64_t capacity() const { return capacity_; }
  // From now on `size` values, or as many elements in an encoding, which `capacity` has room for.
  // What they are is undefined.
  void resize(std::int64_t size, std::optional<Encoding> encoding = {}) {
    size_ = size;
    encoding_ = encoding;
    checksum_.reset();
  }
  // Not where the elements are encoded.
  std::span<float> values() { return {memory_, static_cast<std::size_t>(size_)}; }
  std::span<const float> values() const { return {memory_, static_cast<std::size_t>(size_)}; }
  // Values as they are, or the elements in their encoding().
  std::span<std::byte> bytes() {
    return {reinterpret_cast<std::byte*>(memory_), static_cast<std::size_t>(bytes_size())};
  }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(memory_), static_cast<std::size_t>(bytes_size())};
  }
  std::optional<Encoding> encoding() const { return encoding_; }
  // The wire_checksum() of the values, where it was taken along with them.
  void set_checksum(std::uint64_t checksum) { checksum_ = checksum; }
  std::optional<std::uint64_t> checksum() const { return checksum_; }

 private:
  std::int64_t bytes_size() const { return encoded_size(encoding_.value_or(Encoding::f32), size_); }

  float* memory_;
  std::int64_t capacity_;
  void (*release_)(float*);
  std::int64_t size_ = 0;
  std::optional<Encoding> encoding_;
  std::optional<std::uint64_t> checksum_;
};

// Arrays that are used again once nobody else holds them.
class HostArrayPool {
 public:
  using Make = std::shared_ptr<HostArray> (*)(std::int64_t capacity);
  explicit HostArrayPool(Make make) : make_(make) {}

  // An array resized so.
  std::shared_ptr<HostArray> take(std::int64_t size, std::optional<Encoding> encoding = {});

 private:
  Make make_;
  std::vector<std::shared_ptr<HostArray>> arrays_;
};

// Brings fragments, ranges of a flat device array, to the host and back beside the kernels. Ranges
// follow one another without gaps on the host. Made by Kernels::make_mover(); used by the kernels'
// thread.
class Mover {
 public:
  virtual ~Mover() = default;

  // Takes the ranges' values as the kernels that are queued now leave them; later ones may change
  // the array. Only when what was taken before has been handed over. `sum`: with their checksum,
  // where the processor copies them itself. A GPU whose mover was made for differences gives these
  // instead, encoded, as WireKernels::encode() does, with what was put last of the fragment as the
  // base.
  virtual void take(int fragment, const float* flat, std::span<const Part> ranges, bool sum) = 0;

  // Hands over what was taken once it is on the host; null while it is on its way. Does not wait.
  virtual std::shared_ptr<const HostArray> taken() = 0;

  // Replaces the ranges' values for the kernels that are queued from now on; `bytes`, all of these
  // elements in the encoding, may be changed at once. f32 bytes are aligned as floats.
  virtual void put(int fragment, float* flat, std::span<const Part> ranges, Encoding encoding,
                   std::span<const std::byte> bytes) = 0;

  // Forgets what encoding has lost of the differences so far: a new life begins.
  virtual void forget_residuals() = 0;
};

// For kernels whose memory is the host's; decodes on up to `threads` threads.
std::unique_ptr<Mover> make_host_mover(int threads);

}  // namespace archipelago::kernels
