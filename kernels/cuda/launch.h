#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/check.h"

// How the .cu files start their kernels: not with <<< >>>, so that the same files also compile as
// plain C++ against the emulation of tests/support/cuda. For its sake shared memory is always that
// of the launch, taken with shared_memory().

namespace archipelago::kernels::cuda {

constexpr int kWarp = 32;

// Blocks that cover `count` items, `each` a block.
inline unsigned int blocks_for(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned int>((count + each - 1) / each);
}

// The same, but no more than `most`, enough to fill any GPU: each thread takes items a grid apart.
inline unsigned int blocks_up_to(std::int64_t count, std::int64_t each,
                                 std::int64_t most = 1 << 16) {
  return blocks_for(count < most * each ? count : most * each, each);
}

// How many blocks of a kernel the whole GPU runs at once.
template <typename... Parameters>
std::int64_t resident_blocks(int device, void (*kernel)(Parameters...), unsigned int threads,
                             std::size_t shared_bytes) {
  int each = 0;
  int multiprocessors = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, static_cast<int>(threads),
                                                      shared_bytes),
        "asking how many blocks run at once");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "asking for the number of multiprocessors");
  return static_cast<std::int64_t>(each) * multiprocessors;
}

// Grids have at most 2^31 - 1 blocks along x and 65535 along y; kernels that take more rows than
// that loop.
template <typename... Parameters, typename... Arguments>
void launch(cudaStream_t stream, const char* name, void (*kernel)(Parameters...), dim3 grid,
            dim3 block, std::size_t shared_bytes, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

}  // namespace archipelago::kernels::cuda
