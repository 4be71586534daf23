#include "kernels/cuda/cuda_kernels.h"

#include <string>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_mover.h"
#include "kernels/cuda/dnn.h"

namespace archipelago::kernels {
namespace {

std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// The device comes first: streams and handles belong to the one that is current.
Device made_current(const Device& device) {
  cuda::check(cudaSetDevice(device.index), "choosing GPU " + std::to_string(device.index));
  return device;
}

}  // namespace

CudaKernels::CudaKernels(const Device& device)
    : device_(made_current(device)), blas_(device.deterministic) {
  if (device.precision == Precision::bf16) {
    dnn_ = std::make_unique<cuda::Dnn>(stream());
    fused_attention_ = std::make_unique<cuda::FusedAttention>(*dnn_, device.deterministic);
    patch_convolution_ = std::make_unique<cuda::PatchConvolution>(*dnn_, device.deterministic);
  }
}

CudaKernels::~CudaKernels() = default;

float* CudaKernels::allocate(std::int64_t count) {
  void* memory = nullptr;
  cuda::check(cudaMalloc(&memory, bytes_of(count)),
              "taking " + std::to_string(bytes_of(count)) + " bytes of its memory");
  clear(static_cast<float*>(memory), count);
  return static_cast<float*>(memory);
}

void CudaKernels::release(float* memory, std::int64_t) noexcept {
  forget_rounded(memory);
  cudaFree(memory);
}

void CudaKernels::copy_in(void* to, const void* host, std::int64_t bytes) {
  forget_rounded(to);
  staging_.copy_in(to, host, bytes, stream_);
}

void CudaKernels::copy_out(void* host, const void* from, std::int64_t bytes) {
  cuda::check(cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                              stream()),
              "copying out");
  stream_.finish();
}

void CudaKernels::copy(void* to, const void* from, std::int64_t bytes) {
  cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                              stream()),
              "copying");
}

std::unique_ptr<Mover> CudaKernels::make_mover(std::optional<Encoding> differences) {
  return std::make_unique<cuda::CudaMover>(stream(), differences);
}

}  // namespace archipelago::kernels
