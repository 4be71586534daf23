#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

// Sums over rows, in two launches so that their order is fixed: a block sums a tile of rows for a
// warp's width of columns, then a thread a column adds the tiles' sums up.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::lane;
using cuda::warp;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kTileRows = 512;

// What layer norm's weight sees of a row besides d_y; null pointers: nothing.
struct Normal {
  const float* x;
  const float* mean;
  const float* rstd;
};

// partial[tiles, 2, C]: sums of d_y, and of d_y * normal.
template <typename DY>
__global__ void tile_sums(float* partial, const DY* d_y, Normal normal, std::int64_t R,
                          std::int64_t C) {
  float* shared = cuda::shared_memory<float>();  // [2, kWarps, kWarp]
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane();
  const std::int64_t tile = blockIdx.y;
  const std::int64_t end = (tile + 1) * kTileRows < R ? (tile + 1) * kTileRows : R;
  float sum = 0;
  float weighted = 0;
  if (c < C) {
    for (std::int64_t r = tile * kTileRows + warp(); r < end; r += kWarps) {
      const float d = cuda::load(d_y + r * C + c);
      sum += d;
      if (normal.x != nullptr) {
        weighted += d * (normal.x[r * C + c] - normal.mean[r]) * normal.rstd[r];
      }
    }
  }
  const int at = warp() * kWarp + lane();
  shared[at] = sum;
  shared[kThreads + at] = weighted;
  __syncthreads();
  if (warp() < 2 && c < C) {
    const float* sums = shared + warp() * kThreads + lane();
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total += sums[w * kWarp];
    partial[(tile * 2 + warp()) * C + c] = total;
  }
}

__global__ void add_tiles(float* d_bias, float* d_weight, const float* partial, std::int64_t tiles,
                          std::int64_t C) {
  const std::int64_t c = cuda::grid_thread();
  if (c >= C) return;
  float sum = 0;
  float weighted = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    sum += partial[tile * 2 * C + c];
    weighted += partial[(tile * 2 + 1) * C + c];
  }
  d_bias[c] += sum;
  if (d_weight != nullptr) d_weight[c] += weighted;
}

}  // namespace

void CudaKernels::add_column_sums(float* d_bias, float* d_weight, ConstNumbers d_y, const float* x,
                                  const float* mean, const float* rstd, std::int64_t R,
                                  std::int64_t C) {
  const unsigned int tiles = cuda::blocks_for(R, kTileRows);
  float* partial = sums_.reserve<float>(static_cast<std::int64_t>(tiles) * 2 * C);
  cuda::typed(d_y, [&]<typename DY>(const DY* summed) {
    cuda::launch(stream(), "summing columns", tile_sums<DY>,
                 dim3(cuda::blocks_for(C, kWarp), tiles), kThreads, 2 * kThreads * sizeof(float),
                 partial, summed, Normal{x, mean, rstd}, R, C);
  });
  cuda::launch(stream(), "summing columns", add_tiles, cuda::blocks_for(C, kThreads), kThreads, 0,
               d_bias, d_weight, partial, static_cast<std::int64_t>(tiles), C);
}

}  // namespace archipelago::kernels
