#include "kernels/mover.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace archipelago::kernels {
namespace {

std::shared_ptr<HostArray> make_plain(std::int64_t count) {
  return std::make_shared<HostArray>(new float[static_cast<std::size_t>(count)], count,
                                     [](float* memory) { delete[] memory; });
}

class HostMover final : public Mover {
 public:
  explicit HostMover(int threads) : wire_(make_cpu_wire_kernels(threads)) {}

  void take(int, const float* flat, std::span<const Part> ranges, bool sum) override {
    taken_ = pool_.take(total_size(ranges));
    WireChecksum checksum(Encoding::f32, std::as_bytes(taken_->values()).data(),
                          std::ssize(taken_->values()));
    std::int64_t done = 0;
    for (const Part& range : ranges) {
      for (std::int64_t begin = 0; begin < range.size; begin += kWirePart) {
        const std::int64_t size = std::min(kWirePart, range.size - begin);
        std::copy_n(flat + range.offset + begin, size, &taken_->values()[done]);
        done += size;
        if (sum) checksum.add_until(done);
      }
    }
    if (sum) taken_->set_checksum(checksum.value());
  }

  std::shared_ptr<const HostArray> taken() override { return std::exchange(taken_, nullptr); }

  void put(int, float* flat, std::span<const Part> ranges, Encoding encoding,
           std::span<const std::byte> bytes) override {
    std::vector<float> decoded;
    const auto* from = reinterpret_cast<const float*>(bytes.data());
    if (encoding != Encoding::f32) {
      decoded.resize(static_cast<std::size_t>(total_size(ranges)));
      wire_->decode(encoding, decoded.data(), nullptr, bytes.data(), std::ssize(decoded));
      from = decoded.data();
    }
    for (const Part& range : ranges) {
      std::copy_n(from, range.size, flat + range.offset);
      from += range.size;
    }
  }

  void forget_residuals() override {}

 private:
  std::unique_ptr<WireKernels> wire_;
  HostArrayPool pool_{make_plain};
  std::shared_ptr<HostArray> taken_;
};

}  // namespace

std::int64_t total_size(std::span<const Part> ranges) {
  std::int64_t size = 0;
  for (const Part& range : ranges) size += range.size;
  return size;
}

std::shared_ptr<HostArray> HostArrayPool::take(std::int64_t size,
                                               std::optional<Encoding> encoding) {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t bytes = encoded_size(encoding.value_or(Encoding::f32), size);
  const std::int64_t capacity = (bytes + kFloat - 1) / kFloat;
  const auto free = [](const auto& array) { return array.use_count() == 1; };
  auto found = std::ranges::find_if(arrays_, free);
  // The thread that held it has done its reading before.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (found != arrays_.end() && (*found)->capacity() < capacity) {
    arrays_.erase(found);
    found = arrays_.end();
  }
  if (found == arrays_.end()) found = arrays_.insert(arrays_.end(), make_(capacity));
  (*found)->resize(size, encoding);
  return *found;
}

std::unique_ptr<Mover> make_host_mover(int threads) { return std::make_unique<HostMover>(threads); }

}  // namespace archipelago::kernels
