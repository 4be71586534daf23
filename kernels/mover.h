#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace archipelago::kernels {

// A run of elements in a flat array.
struct Part {
  std::int64_t offset;
  std::int64_t size;
};

// Values in the host's memory, pinned where they come from a GPU; shared with who sends them on.
class HostArray {
 public:
  // Takes `memory` of `capacity` elements, which `release` gives back.
  HostArray(float* memory, std::int64_t capacity, void (*release)(float*))
      : memory_(memory), capacity_(capacity), release_(release) {}
  ~HostArray() { release_(memory_); }
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;

  std::int64_t capacity() const { return capacity_; }
  // At most `capacity`. The values are undefined.
  void resize(std::int64_t size) {
    size_ = size;
    checksum_.reset();
  }
  std::span<float> values() { return {memory_, static_cast<std::size_t>(size_)}; }
  std::span<const float> values() const { return {memory_, static_cast<std::size_t>(size_)}; }
  // The wire_checksum() of the values, where it was taken along with them.
  void set_checksum(std::uint64_t checksum) { checksum_ = checksum; }
  std::optional<std::uint64_t> checksum() const { return checksum_; }

 private:
  float* memory_;
  std::int64_t capacity_;
  void (*release_)(float*);
  std::int64_t size_ = 0;
  std::optional<std::uint64_t> checksum_;
};

// Arrays that are used again once nobody else holds them.
class HostArrayPool {
 public:
  using Make = std::shared_ptr<HostArray> (*)(std::int64_t count);
  explicit HostArrayPool(Make make) : make_(make) {}

  std::shared_ptr<HostArray> take(std::int64_t count);

 private:
  Make make_;
  std::vector<std::shared_ptr<HostArray>> arrays_;
};

// Brings ranges of a flat device array to the host and back beside the kernels. Ranges follow one
// another without gaps on the host. Made by Kernels::make_mover(); used by the kernels' thread.
class Mover {
 public:
  virtual ~Mover() = default;

  // Takes the ranges' values as the kernels that are queued now leave them; later ones may change
  // the array. Only when what was taken before has been handed over. `sum`: with their checksum,
  // where the processor copies them itself.
  virtual void take(const float* flat, std::span<const Part> ranges, bool sum) = 0;

  // Hands over what was taken once it is on the host; null while it is on its way. Does not wait.
  virtual std::shared_ptr<const HostArray> taken() = 0;

  // Replaces the ranges' values for the kernels that are queued from now on; `values` may be
  // changed at once.
  virtual void put(float* flat, std::span<const Part> ranges, std::span<const float> values) = 0;
};

// For kernels whose memory is the host's.
std::unique_ptr<Mover> make_host_mover();

}  // namespace archipelago::kernels
