#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launch.h"

// What the kernels' threads do together. Sums go up in a fixed order, so the same launch gives the
// same bits.

namespace archipelago::kernels::cuda {

constexpr unsigned int kWholeWarp = 0xffffffffU;

#ifdef __CUDACC__
// The launch's shared memory.
template <typename T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}
#endif

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

// This block's warp among all of the grid's.
__device__ inline std::int64_t grid_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kWarp) + warp();
}

// This thread among all of the grid's along x, and how many there are.
__device__ inline std::int64_t grid_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// The sum of `value` over the warp's lanes, on every lane; all of them call it.
template <typename T>
__device__ T warp_sum(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

__device__ inline float warp_max(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

__device__ inline std::uint32_t warp_max(std::uint32_t value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kWholeWarp, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The same over the block, whose threads all call it; `shared` holds an element a warp and is free
// again after the call.
template <typename T>
__device__ T block_sum(T value, T* shared) {
  value = warp_sum(value);
  if (lane() == 0) shared[warp()] = value;
  __syncthreads();
  T total = 0;
  for (unsigned int w = 0; w < blockDim.x / kWarp; ++w) total += shared[w];
  __syncthreads();
  return total;
}

__device__ inline float block_max(float value, float* shared) {
  value = warp_max(value);
  if (lane() == 0) shared[warp()] = value;
  __syncthreads();
  float largest = shared[0];
  for (unsigned int w = 1; w < blockDim.x / kWarp; ++w) largest = fmaxf(largest, shared[w]);
  __syncthreads();
  return largest;
}

}  // namespace archipelago::kernels::cuda
