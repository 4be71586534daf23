#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

// Sums over rows, in two launches so that their order is fixed: a block sums a tile of rows for a
// warp's width of columns, of which each lane has one or several, then blocks add the tiles' sums
// up in the same way.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::lane;
using cuda::load;
using cuda::warp;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kTileRows = 256;

// What `sums` is on each warp and lane, added up over the warps in shared[kWarps, kWarp * N]; a
// thread gets the total of the column that is its place in the block. The block's threads all
// call it.
template <int N>
__device__ float block_columns(const float (&sums)[N], float* shared) {
  for (int k = 0; k < N; ++k) shared[(warp() * kWarp + lane()) * N + k] = sums[k];
  __syncthreads();
  float total = 0;
  if (threadIdx.x < kWarp * N) {
    for (int w = 0; w < kWarps; ++w) total += shared[w * kWarp * N + threadIdx.x];
  }
  __syncthreads();
  return total;
}

// partial[tiles, C]: sums of d_y.
template <int N, typename DY>
__global__ void tile_sums(float* partial, const DY* d_y, std::int64_t R, std::int64_t C) {
  float* shared = cuda::shared_memory<float>();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWarp * N;
  const std::int64_t c = first + lane() * N;
  const std::int64_t tile = blockIdx.y;
  const std::int64_t end = (tile + 1) * kTileRows < R ? (tile + 1) * kTileRows : R;
  float sums[N] = {};
  if (c < C) {
    for (std::int64_t r = tile * kTileRows + warp(); r < end; r += kWarps) {
      float gradients[N];
      load(gradients, d_y + r * C + c);
      for (int k = 0; k < N; ++k) sums[k] += gradients[k];
    }
  }
  const float sum = block_columns(sums, shared);
  const std::int64_t own = first + threadIdx.x;
  if (threadIdx.x < kWarp * N && own < C) partial[tile * C + own] = sum;
}

// The sums over partial[tiles, part, columns], of which the second part may be missing, are added
// to first[columns] and second.
__global__ void add_tiles(float* first, float* second, const float* partial, std::int64_t tiles,
                          std::int64_t C) {
  float* shared = cuda::shared_memory<float>();
  const std::int64_t width = second == nullptr ? C : 2 * C;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane();
  float sum[1] = {};
  for (std::int64_t tile = warp(); tile < tiles && c < width; tile += kWarps) {
    sum[0] += partial[tile * width + c];
  }
  const float total = block_columns(sum, shared);
  if (warp() > 0 || c >= width) return;
  float& to = c < C ? first[c] : second[c - C];
  to += total;
}

}  // namespace

void CudaKernels::add_partial_sums(float* first, float* second, const float* partial,
                                   std::int64_t tiles, std::int64_t C) {
  cuda::launch(stream(), "summing columns", add_tiles,
               cuda::blocks_for(second == nullptr ? C : 2 * C, kWarp), kThreads,
               kThreads * sizeof(float), first, second, partial, tiles, C);
}

void CudaKernels::add_column_sums(float* d_bias, ConstNumbers d_y, std::int64_t R, std::int64_t C) {
  const unsigned int tiles = cuda::blocks_for(R, kTileRows);
  float* partial = sums_.reserve<float>(static_cast<std::int64_t>(tiles) * C);
  cuda::typed(d_y, [&]<typename DY>(const DY* summed) {
    cuda::in_vectors<cuda::kWidest<DY>>(
        C,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "summing columns", tile_sums<N, DY>,
                       dim3(cuda::blocks_for(C, kWarp * N), tiles), kThreads,
                       N * kThreads * sizeof(float), partial, summed, R, C);
        },
        summed);
  });
  add_partial_sums(d_bias, nullptr, partial, tiles, C);
}

}  // namespace archipelago::kernels
