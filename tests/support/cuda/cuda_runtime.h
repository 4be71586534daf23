#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

// The part of CUDA that kernels/cuda and src/island use, on the processor, so that the same sources
// run in tests without a GPU; found in place of the toolkit's header. emulation.h says what it
// checks.

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
};

// NOLINTBEGIN: CUDA's names
extern dim3 threadIdx;
extern dim3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;

namespace archipelago::emulation {
struct Stream;
struct Event;
}  // namespace archipelago::emulation
using cudaStream_t = archipelago::emulation::Stream*;
using cudaEvent_t = archipelago::emulation::Event*;

constexpr unsigned int cudaStreamNonBlocking = 1;
constexpr unsigned int cudaEventDefault = 0;
constexpr unsigned int cudaEventDisableTiming = 2;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

const char* cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

namespace archipelago::emulation {

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> kernel);
void* shared_memory();
void block_barrier(const std::source_location& where);
// Each of the warp's lanes in `mask` gives 8 bytes; returns those that lane `from` gave.
std::uint64_t exchange(unsigned int mask, std::uint64_t given, int from,
                       const std::source_location& where);
unsigned int vote(unsigned int mask, bool given, const std::source_location& where);
int own_lane();

template <typename T>
T shuffle(unsigned int mask, T value, int from, const std::source_location& where) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, from, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace archipelago::emulation

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return archipelago::emulation::launch(
      *config, [kernel, ... values = static_cast<std::decay_t<Parameters>>(arguments)] {
        kernel(values...);
      });
}

// Registers and shared memory are no limit here.
template <typename... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*)(Parameters...),
                                                          int threads, std::size_t) {
  constexpr int kThreads = 2048;
  *blocks = kThreads / threads;
  return cudaSuccess;
}

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  archipelago::emulation::block_barrier(where);
}
inline void __syncwarp(unsigned int mask,
                       std::source_location where = std::source_location::current()) {
  archipelago::emulation::vote(mask, true, where);
}
template <typename T>
T __shfl_sync(unsigned int mask, T value, int from,
              std::source_location where = std::source_location::current()) {
  return archipelago::emulation::shuffle(mask, value, from, where);
}
template <typename T>
T __shfl_xor_sync(unsigned int mask, T value, int distance,
                  std::source_location where = std::source_location::current()) {
  return archipelago::emulation::shuffle(mask, value, archipelago::emulation::own_lane() ^ distance,
                                         where);
}
inline unsigned int __ballot_sync(unsigned int mask, bool given,
                                  std::source_location where = std::source_location::current()) {
  return archipelago::emulation::vote(mask, given, where);
}
// Threads take turns only at barriers and warp operations.
inline int atomicAdd(int* sum, int value) {
  const int before = *sum;
  *sum += value;
  return before;
}
inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
// NOLINTEND

namespace archipelago::kernels::cuda {

template <typename T>
T* shared_memory() {
  return static_cast<T*>(emulation::shared_memory());
}

}  // namespace archipelago::kernels::cuda
