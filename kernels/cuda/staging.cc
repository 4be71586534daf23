#include "kernels/cuda/staging.h"

#include <cstring>

#include "kernels/cuda/check.h"

namespace archipelago::kernels::cuda {
namespace {

// Some steps' tokens; what is larger (parameters, once a life) is waited for.
constexpr std::int64_t kRingBytes = 4 << 20;
constexpr std::int64_t kAlignment = 16;

}  // namespace

void Staging::copy_in(void* to, const void* host, std::int64_t bytes, const Stream& stream) {
  const void* from = host;
  if (bytes <= kRingBytes) {
    if (ring_.size() == 0) ring_ = PinnedBuffer(kRingBytes / static_cast<int>(sizeof(float)));
    if (used_ + bytes > kRingBytes) {
      stream.finish();
      used_ = 0;
    }
    char* const staged = reinterpret_cast<char*>(ring_.data()) + used_;
    std::memcpy(staged, host, static_cast<std::size_t>(bytes));
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    from = staged;
  }
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                        stream.get()),
        "copying in");
  // CUDA does not promise to be done with memory that is not pinned when the call returns.
  if (from == host) stream.finish();
}

}  // namespace archipelago::kernels::cuda
