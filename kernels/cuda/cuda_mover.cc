#include "kernels/cuda/cuda_mover.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cuda/check.h"

namespace archipelago::kernels::cuda {
namespace {

void copy(void* to, const void* from, std::int64_t count, cudaMemcpyKind kind,
          cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(float), kind, stream),
        "moving a fragment");
}

}  // namespace

// What is still on its way has to be done with the memory first.
CudaMover::~CudaMover() { cudaStreamSynchronize(copies_.get()); }

std::shared_ptr<HostArray> CudaMover::make_pinned(std::int64_t count) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<std::size_t>(count) * sizeof(float)),
        "taking pinned memory for a fragment of " + std::to_string(count) + " elements");
  return std::make_shared<HostArray>(static_cast<float*>(memory), count,
                                     [](float* pinned) { cudaFreeHost(pinned); });
}

void CudaMover::take(const float* flat, std::span<const Part> ranges, bool) {
  std::int64_t count = 0;
  for (const Part& range : ranges) count += range.size;
  out_ = out_pool_.take(count);
  float* packed = out_staging_.reserve<float>(count);
  float* to = packed;
  for (const Part& range : ranges) {
    copy(to, flat + range.offset, range.size, cudaMemcpyDeviceToDevice, compute_);
    to += range.size;
  }
  packed_.record(compute_);
  packed_.hold(copies_.get());
  copy(out_->values().data(), packed, count, cudaMemcpyDeviceToHost, copies_.get());
  landed_.record(copies_.get());
}

std::shared_ptr<const HostArray> CudaMover::taken() {
  if (out_ == nullptr || !landed_.reached()) return nullptr;
  return std::exchange(out_, nullptr);
}

void CudaMover::put(float* flat, std::span<const Part> ranges, std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  // The copy before may still read its pinned memory: each fragment's is held until then.
  if (!arrived_.reached()) copies_.finish();
  const auto pinned = in_pool_.take(count);
  std::ranges::copy(values, pinned->values().begin());
  float* staged = in_staging_.reserve<float>(count);
  unpacked_.hold(copies_.get());
  copy(staged, pinned->values().data(), count, cudaMemcpyHostToDevice, copies_.get());
  arrived_.record(copies_.get());
  arrived_.hold(compute_);
  for (const Part& range : ranges) {
    copy(flat + range.offset, staged, range.size, cudaMemcpyDeviceToDevice, compute_);
    staged += range.size;
  }
  unpacked_.record(compute_);
}

}  // namespace archipelago::kernels::cuda
