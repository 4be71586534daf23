#include "kernels/cpu/cpu_kernels.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace archipelago::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// The kernels walk through far more memory than small pages' translations are cached for. Advice
// that the system doesn't take costs nothing.
float* CpuKernels::allocate(std::int64_t count) {
  const std::size_t bytes = rounded_up(
      std::max<std::size_t>(static_cast<std::size_t>(count) * sizeof(float), 1), kCacheLine);
  const bool huge = bytes >= kHugePage;
  void* memory = huge ? std::aligned_alloc(kHugePage, rounded_up(bytes, kHugePage))
                      : std::aligned_alloc(kCacheLine, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (huge) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
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
