#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::lane;

constexpr int kThreads = 256;

// Whether a row before `r` has the same token. The whole warp calls it.
__device__ bool appears_before(const std::int32_t* tokens, std::int64_t r) {
  for (std::int64_t first = 0; first < r; first += kWarp) {
    const std::int64_t other = first + lane();
    const bool same = other < r && tokens[other] == tokens[r];
    if (__ballot_sync(cuda::kWholeWarp, same) != 0) return true;
  }
  return false;
}

// The warp of a token's first row adds up all rows of that token for kWarp columns, in the order of
// the rows: no two warps write one place, so the bits are the same in every run.
__global__ void add_token_gradients(float* d_token_table, const std::int32_t* tokens,
                                    const float* d_x, std::int64_t R, std::int64_t C) {
  const std::int64_t r = cuda::grid_warp();
  if (r >= R || appears_before(tokens, r)) return;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kWarp + lane();
  float sum = 0;
  for (std::int64_t first = r; first < R; first += kWarp) {
    const std::int64_t other = first + lane();
    const bool same = other < R && tokens[other] == tokens[r];
    unsigned int rows = __ballot_sync(cuda::kWholeWarp, same);
    while (rows != 0) {
      const int next = __ffs(static_cast<int>(rows)) - 1;
      rows &= rows - 1;
      if (c < C) sum += d_x[(first + next) * C + c];
    }
  }
  if (c < C) d_token_table[tokens[r] * C + c] += sum;
}

}  // namespace

void CudaKernels::embedding_backward(float* d_token_table, float* d_position_table,
                                     const std::int32_t* tokens, const float* d_x, std::int64_t B,
                                     std::int64_t T, std::int64_t C) {
  const dim3 grid(cuda::blocks_for(B * T, kThreads / kWarp), cuda::blocks_for(C, kWarp));
  cuda::launch(stream(), "embedding_backward", add_token_gradients, grid, kThreads, 0,
               d_token_table, tokens, d_x, B * T, C);
  add_positions_backward(d_position_table, d_x, B, T, C);
}

}  // namespace archipelago::kernels
