#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace archipelago::kernels {

float* CpuKernels::allocate(std::int64_t count) {
  const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, std::max<std::size_t>(bytes, 64));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return static_cast<float*>(memory);
}

void CpuKernels::release(float* memory, std::int64_t) noexcept { std::free(memory); }

void CpuKernels::copy_in(void* to, const void* host, std::int64_t bytes) {
  std::memcpy(to, host, static_cast<std::size_t>(bytes));
}

void CpuKernels::copy_out(void* host, const void* from, std::int64_t bytes) {
  std::memcpy(host, from, static_cast<std::size_t>(bytes));
}

void CpuKernels::clear(float* x, std::int64_t count) { std::fill_n(x, count, 0.0F); }

void CpuKernels::reserve_scratch(std::int64_t count) {
  for (Buffer& buffer : scratch_) buffer.reserve(*this, count);
}

std::unique_ptr<Kernels> make_cpu_kernels(int threads) {
  return std::make_unique<CpuKernels>(std::max(threads, 1));
}

}  // namespace archipelago::kernels
