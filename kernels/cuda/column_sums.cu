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

constexpr int kVector = 4;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kTileRows = 256;

// What layer norm's weight sees of a row besides d_y; null pointers: nothing.
struct Normal {
  const float* x;
  const float* mean;
  const float* rstd;
};

// What `sums` is on each warp and lane, added up over the warps in shared[kWarps, kWarp * N]; every
// thread gets the total of the columns that its place in the block names. The block's threads all
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

// partial[tiles, 2, C]: sums of d_y, and of d_y * normal.
template <int N, typename DY>
__global__ void tile_sums(float* partial, const DY* d_y, Normal normal, std::int64_t R,
                          std::int64_t C) {
  float* shared = cuda::shared_memory<float>();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWarp * N;
  const std::int64_t c = first + lane() * N;
  const std::int64_t tile = blockIdx.y;
  const std::int64_t end = (tile + 1) * kTileRows < R ? (tile + 1) * kTileRows : R;
  float sums[N] = {};
  float weighted[N] = {};
  if (c < C) {
    for (std::int64_t r = tile * kTileRows + warp(); r < end; r += kWarps) {
      float gradients[N];
      load(gradients, d_y + r * C + c);
      for (int k = 0; k < N; ++k) sums[k] += gradients[k];
      if (normal.x == nullptr) continue;
      const float mean = normal.mean[r];
      const float rstd = normal.rstd[r];
      float values[N];
      load(values, normal.x + r * C + c);
      for (int k = 0; k < N; ++k) weighted[k] += gradients[k] * (values[k] - mean) * rstd;
    }
  }
  const float sum = block_columns(sums, shared);
  const float weighted_sum = normal.x == nullptr ? 0.0F : block_columns(weighted, shared);
  const std::int64_t own = first + threadIdx.x;
  if (threadIdx.x >= kWarp * N || own >= C) return;
  partial[tile * 2 * C + own] = sum;
  partial[(tile * 2 + 1) * C + own] = weighted_sum;
}

__global__ void add_tiles(float* d_bias, float* d_weight, const float* partial, std::int64_t tiles,
                          std::int64_t C) {
  float* shared = cuda::shared_memory<float>();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane();
  float sum[1] = {};
  float weighted[1] = {};
  for (std::int64_t tile = warp(); tile < tiles && c < C; tile += kWarps) {
    sum[0] += partial[tile * 2 * C + c];
    if (d_weight != nullptr) weighted[0] += partial[(tile * 2 + 1) * C + c];
  }
  const float total = block_columns(sum, shared);
  const float weighted_total = block_columns(weighted, shared);
  if (warp() > 0 || c >= C) return;
  d_bias[c] += total;
  if (d_weight != nullptr) d_weight[c] += weighted_total;
}

}  // namespace

void CudaKernels::add_column_sums(float* d_bias, float* d_weight, ConstNumbers d_y, const float* x,
                                  const float* mean, const float* rstd, std::int64_t R,
                                  std::int64_t C) {
  const unsigned int tiles = cuda::blocks_for(R, kTileRows);
  float* partial = sums_.reserve<float>(static_cast<std::int64_t>(tiles) * 2 * C);
  cuda::typed(d_y, [&]<typename DY>(const DY* summed) {
    cuda::in_vectors<kVector>(
        C,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "summing columns", tile_sums<N, DY>,
                       dim3(cuda::blocks_for(C, kWarp * N), tiles), kThreads,
                       N * kThreads * sizeof(float), partial, summed, Normal{x, mean, rstd}, R, C);
        },
        summed, x);
  });
  cuda::launch(stream(), "summing columns", add_tiles, cuda::blocks_for(C, kWarp), kThreads,
               kThreads * sizeof(float), d_bias, d_weight, partial,
               static_cast<std::int64_t>(tiles), C);
}

}  // namespace archipelago::kernels
