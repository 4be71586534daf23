#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

// A warp a row.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::lane;
using cuda::warp_sum;

constexpr float kEpsilon = 1e-5F;
constexpr int kThreads = 256;
constexpr std::int64_t kRows = kThreads / kWarp;  // a block

template <typename Y>
__device__ void normalize_row(Y* y, const float* x, float mean, float rstd, const float* weight,
                              const float* bias, std::int64_t C) {
  for (std::int64_t c = lane(); c < C; c += kWarp) {
    cuda::store(y + c, (x[c] - mean) * rstd * weight[c] + bias[c]);
  }
}

template <typename Y>
__global__ void layer_norm_forward_rows(Y* y, float* mean, float* rstd, const float* x,
                                        const float* weight, const float* bias, std::int64_t R,
                                        std::int64_t C) {
  const std::int64_t r = cuda::grid_warp();
  if (r >= R) return;
  const float* in = x + r * C;
  float sum = 0;
  for (std::int64_t c = lane(); c < C; c += kWarp) sum += in[c];
  const float row_mean = warp_sum(sum) / static_cast<float>(C);
  float squares = 0;
  for (std::int64_t c = lane(); c < C; c += kWarp) {
    squares += (in[c] - row_mean) * (in[c] - row_mean);
  }
  const float row_rstd = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(C) + kEpsilon);
  normalize_row(y + r * C, in, row_mean, row_rstd, weight, bias, C);
  if (lane() == 0) {
    mean[r] = row_mean;
    rstd[r] = row_rstd;
  }
}

template <typename Y>
__global__ void layer_norm_again_rows(Y* y, const float* x, const float* mean, const float* rstd,
                                      const float* weight, const float* bias, std::int64_t R,
                                      std::int64_t C) {
  const std::int64_t r = cuda::grid_warp();
  if (r < R) normalize_row(y + r * C, x + r * C, mean[r], rstd[r], weight, bias, C);
}

template <typename DY>
__global__ void layer_norm_backward_rows(float* d_x, const DY* d_y, const float* x,
                                         const float* mean, const float* rstd, const float* weight,
                                         std::int64_t R, std::int64_t C) {
  const std::int64_t r = cuda::grid_warp();
  if (r >= R) return;
  const float* in = x + r * C;
  const DY* d_out = d_y + r * C;
  const float m = mean[r];
  const float s = rstd[r];
  float sum = 0;
  float dot = 0;
  for (std::int64_t c = lane(); c < C; c += kWarp) {
    const float d_normal = cuda::load(d_out + c) * weight[c];
    sum += d_normal;
    dot += d_normal * (in[c] - m) * s;
  }
  sum = warp_sum(sum) / static_cast<float>(C);
  dot = warp_sum(dot) / static_cast<float>(C);
  for (std::int64_t c = lane(); c < C; c += kWarp) {
    d_x[r * C + c] += s * (cuda::load(d_out + c) * weight[c] - sum - (in[c] - m) * s * dot);
  }
}

}  // namespace

void CudaKernels::layer_norm_forward(Numbers y, float* mean, float* rstd, const float* x,
                                     const float* weight, const float* bias, std::int64_t R,
                                     std::int64_t C) {
  cuda::typed(y, [&]<typename Y>(Y* out) {
    cuda::launch(stream(), "layer_norm_forward", layer_norm_forward_rows<Y>,
                 cuda::blocks_for(R, kRows), kThreads, 0, out, mean, rstd, x, weight, bias, R, C);
  });
}

void CudaKernels::layer_norm_again(Numbers y, const float* x, const float* mean, const float* rstd,
                                   const float* weight, const float* bias, std::int64_t R,
                                   std::int64_t C) {
  cuda::typed(y, [&]<typename Y>(Y* out) {
    cuda::launch(stream(), "layer_norm_again", layer_norm_again_rows<Y>, cuda::blocks_for(R, kRows),
                 kThreads, 0, out, x, mean, rstd, weight, bias, R, C);
  });
}

void CudaKernels::layer_norm_backward(float* d_x, float* d_weight, float* d_bias, ConstNumbers d_y,
                                      const float* x, const float* mean, const float* rstd,
                                      const float* weight, std::int64_t R, std::int64_t C) {
  cuda::typed(d_y, [&]<typename DY>(const DY* d_out) {
    cuda::launch(stream(), "layer_norm_backward", layer_norm_backward_rows<DY>,
                 cuda::blocks_for(R, kRows), kThreads, 0, d_x, d_out, x, mean, rstd, weight, R, C);
  });
  add_column_sums(d_bias, d_weight, d_y, x, mean, rstd, R, C);
}

}  // namespace archipelago::kernels
