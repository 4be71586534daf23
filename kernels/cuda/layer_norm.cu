#include <algorithm>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

// A warp a row.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::lane;
using cuda::load;
using cuda::store;
using cuda::warp_sum;

constexpr float kEpsilon = 1e-5F;
constexpr int kVector = 4;
constexpr int kThreads = 256;
constexpr std::int64_t kRows = kThreads / kWarp;  // a block
constexpr std::size_t kSharedBytes = 48 << 10;    // that every GPU's blocks may have
constexpr int kBlocksOnMultiprocessor = 4;        // of backward, by registers

template <int N, typename Y>
__device__ void normalize_row(Y* y, const float* x, float mean, float rstd, const float* weight,
                              const float* bias, std::int64_t C) {
  for (std::int64_t c = lane() * N; c < C; c += kWarp * N) {
    float values[N], weights[N], biases[N];
    load(values, x + c);
    load(weights, weight + c);
    load(biases, bias + c);
    for (int k = 0; k < N; ++k) values[k] = (values[k] - mean) * rstd * weights[k] + biases[k];
    store(y + c, values);
  }
}

template <int N, typename Y>
__global__ void layer_norm_forward_rows(Y* y, float* mean, float* rstd, const float* x,
                                        const float* weight, const float* bias, std::int64_t R,
                                        std::int64_t C) {
  const std::int64_t r = cuda::grid_warp();
  if (r >= R) return;
  const float* in = x + r * C;
  float values[N];
  float sum = 0;
  for (std::int64_t c = lane() * N; c < C; c += kWarp * N) {
    load(values, in + c);
    for (const float value : values) sum += value;
  }
  const float row_mean = warp_sum(sum) / static_cast<float>(C);
  float squares = 0;
  for (std::int64_t c = lane() * N; c < C; c += kWarp * N) {
    load(values, in + c);
    for (const float value : values) squares += (value - row_mean) * (value - row_mean);
  }
  const float row_rstd = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(C) + kEpsilon);
  normalize_row<N>(y + r * C, in, row_mean, row_rstd, weight, bias, C);
  if (lane() == 0) {
    mean[r] = row_mean;
    rstd[r] = row_rstd;
  }
}

template <int N, typename Y>
__global__ void layer_norm_again_rows(Y* y, const float* x, const float* mean, const float* rstd,
                                      const float* weight, const float* bias, std::int64_t R,
                                      std::int64_t C) {
  const std::int64_t r = cuda::grid_warp();
  if (r < R) normalize_row<N>(y + r * C, x + r * C, mean[r], rstd[r], weight, bias, C);
}

// Warps take rows in turn. Each adds up its rows' parts of d_bias and d_weight, [2, C], in shared
// memory, and the block those of its warps in partial[blocks, 2, C]; where the memory is too small
// for one warp's (not kInShared), its only warp does so in its part of `partial`. `rounded`, unless
// it is null, gets d_x as it is then; it may be d_y, of which a lane reads what it writes.
template <int N, bool kInShared, typename DY>
__global__ void __launch_bounds__(kThreads, kBlocksOnMultiprocessor)
    layer_norm_backward_rows(float* __restrict__ d_x, float* partial, __nv_bfloat16* rounded,
                             const DY* d_y, const float* __restrict__ x, const float* mean,
                             const float* rstd, const float* __restrict__ weight, std::int64_t R,
                             std::int64_t C) {
  float* shared = cuda::shared_memory<float>();
  float* total = partial + blockIdx.x * 2 * C;
  float* sums = kInShared ? shared + cuda::warp() * 2 * C : total;
  for (std::int64_t c = lane(); c < C; c += kWarp) sums[c] = sums[C + c] = 0;
  __syncwarp(cuda::kWholeWarp);
  const std::int64_t warps = blockDim.x / kWarp;
  for (std::int64_t r = cuda::grid_warp(); r < R; r += gridDim.x * warps) {
    const float* in = x + r * C;
    const DY* d_out = d_y + r * C;
    const float m = mean[r];
    const float s = rstd[r];
    float values[N], gradients[N], weights[N];
    float sum = 0;
    float dot = 0;
    for (std::int64_t c = lane() * N; c < C; c += kWarp * N) {
      load(values, in + c);
      load(gradients, d_out + c);
      load(weights, weight + c);
      for (int k = 0; k < N; ++k) {
        const float d_normal = gradients[k] * weights[k];
        sum += d_normal;
        dot += d_normal * (values[k] - m) * s;
      }
    }
    sum = warp_sum(sum) / static_cast<float>(C);
    dot = warp_sum(dot) / static_cast<float>(C);
    for (std::int64_t c = lane() * N; c < C; c += kWarp * N) {
      float d_in[N], d_bias[N], d_weight[N];
      load(values, in + c);
      load(gradients, d_out + c);
      load(weights, weight + c);
      load(d_in, d_x + r * C + c);
      load(d_bias, sums + c);
      load(d_weight, sums + C + c);
      for (int k = 0; k < N; ++k) {
        const float normal = (values[k] - m) * s;
        d_in[k] += s * (gradients[k] * weights[k] - sum - normal * dot);
        d_bias[k] += gradients[k];
        d_weight[k] += gradients[k] * normal;
      }
      store(d_x + r * C + c, d_in);
      if (rounded != nullptr) store(rounded + r * C + c, d_in);
      store(sums + c, d_bias);
      store(sums + C + c, d_weight);
    }
  }
  if (!kInShared) return;
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < 2 * C; c += blockDim.x) {
    float all = 0;
    for (std::int64_t w = 0; w < warps; ++w) all += shared[w * 2 * C + c];
    total[c] = all;
  }
}

}  // namespace

void CudaKernels::layer_norm_forward(Numbers y, float* mean, float* rstd, const float* x,
                                     const float* weight, const float* bias, std::int64_t R,
                                     std::int64_t C) {
  cuda::typed(y, [&]<typename Y>(Y* out) {
    cuda::in_vectors<kVector>(
        C,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "layer_norm_forward", layer_norm_forward_rows<N, Y>,
                       cuda::blocks_for(R, kRows), kThreads, 0, out, mean, rstd, x, weight, bias, R,
                       C);
        },
        out, x, weight, bias);
  });
}

void CudaKernels::layer_norm_again(Numbers y, const float* x, const float* mean, const float* rstd,
                                   const float* weight, const float* bias, std::int64_t R,
                                   std::int64_t C) {
  cuda::typed(y, [&]<typename Y>(Y* out) {
    cuda::in_vectors<kVector>(
        C,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "layer_norm_again", layer_norm_again_rows<N, Y>,
                       cuda::blocks_for(R, kRows), kThreads, 0, out, x, mean, rstd, weight, bias, R,
                       C);
        },
        out, x, weight, bias);
  });
}

ConstNumbers CudaKernels::layer_norm_backward(float* d_x, float* d_weight, float* d_bias,
                                              ConstNumbers d_y, const float* x, const float* mean,
                                              const float* rstd, const float* weight, float* room,
                                              std::int64_t R, std::int64_t C) {
  const bool rounds = room != nullptr && device_.precision == Precision::bf16;
  auto* rounded = rounds ? reinterpret_cast<__nv_bfloat16*>(room) : nullptr;
  const auto sums_bytes = static_cast<std::size_t>(2 * C) * sizeof(float);
  const std::size_t warps = std::clamp<std::size_t>(kSharedBytes / sums_bytes, 1, kRows);
  const auto threads = static_cast<unsigned int>(warps) * cuda::kWarp;
  const auto run = [&](auto* kernel, std::size_t shared_bytes, const auto* d_out) {
    // Each block's sums are to be added up: no more blocks than run at once.
    const unsigned int blocks =
        cuda::blocks_up_to(R, static_cast<std::int64_t>(warps),
                           cuda::resident_blocks(device_.index, kernel, threads, shared_bytes));
    float* partial = sums_.reserve<float>(static_cast<std::int64_t>(blocks) * 2 * C);
    cuda::launch(stream(), "layer_norm_backward", kernel, blocks, threads, shared_bytes, d_x,
                 partial, rounded, d_out, x, mean, rstd, weight, R, C);
    add_partial_sums(d_bias, d_weight, partial, blocks, C);
  };
  cuda::typed(d_y, [&]<typename DY>(const DY* d_out) {
    cuda::in_vectors<kVector>(
        C,
        [&]<int N>(std::integral_constant<int, N>) {
          if (warps * sums_bytes <= kSharedBytes) {
            run(layer_norm_backward_rows<N, true, DY>, warps * sums_bytes, d_out);
          } else {
            run(layer_norm_backward_rows<N, false, DY>, 0, d_out);
          }
        },
        d_x, rounded, d_out, x, weight);
  });
  if (room == nullptr) return nullptr;
  return rounds ? ConstNumbers(Numbers(room, Precision::bf16)) : ConstNumbers(d_x);
}

}  // namespace archipelago::kernels
