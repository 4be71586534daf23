#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

// Kernels whose threads each do elements of their own.

namespace archipelago::kernels {
namespace {

using cuda::grid_thread;
using cuda::grid_threads;
using cuda::load;
using cuda::store;

constexpr int kThreads = 256;

// gelu(u) = u * gate, where the gate (1 + tanh z) / 2 is the logistic function of 2z, which loses
// nothing where tanh is near -1. z = sqrt(2/pi) (u + 0.044715 u^3).
__device__ float gelu_gate(float u) {
  const float two_z = u * (1.5957691216057308F + 0.0713548162726F * u * u);
  return 1.0F / (1.0F + expf(-two_z));
}

__global__ void clear_elements(float* x, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) x[i] = 0;
}

__global__ void narrow_elements(__nv_bfloat16* out, const float* in, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    out[i] = __float2bfloat16(in[i]);
  }
}

__global__ void widen_elements(float* out, const __nv_bfloat16* in, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    out[i] = __bfloat162float(in[i]);
  }
}

template <typename T>
__global__ void gelu_elements(T* act, const T* pre, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const float u = load(pre + i);
    store(act + i, u * gelu_gate(u));
  }
}

template <typename T>
__global__ void gelu_backward_elements(T* d_act, T* pre, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const float u = load(pre + i);
    const float s = gelu_gate(u);
    const float slope = 1.5957691216057308F + 0.2140644488178F * u * u;  // d(2z)/du
    store(pre + i, u * s);
    // Far out the slope is large where s * (1 - s) is 0.
    const float bend = s * (1.0F - s);
    store(d_act + i, load(d_act + i) * (s + (bend > 0 ? u * bend * slope : 0.0F)));
  }
}

__global__ void embedding_forward_elements(float* x, const std::int32_t* tokens,
                                           const float* token_table, const float* position_table,
                                           std::int64_t count, std::int64_t T, std::int64_t C) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const std::int64_t row = i / C;
    const std::int64_t c = i % C;
    x[i] = token_table[tokens[row] * C + c] + position_table[row % T * C + c];
  }
}

__global__ void add_positions_elements(float* x, const float* table, std::int64_t count,
                                       std::int64_t sequence) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) x[i] += table[i % sequence];
}

// Also the position table's part of an embedding's gradient.
__global__ void add_positions_backward_elements(float* d_table, const float* d_x, std::int64_t B,
                                                std::int64_t sequence) {
  for (std::int64_t i = grid_thread(); i < sequence; i += grid_threads()) {
    float sum = 0;
    for (std::int64_t b = 0; b < B; ++b) sum += d_x[b * sequence + i];
    d_table[i] += sum;
  }
}

__global__ void mean_positions_elements(float* y, const float* x, std::int64_t count,
                                        std::int64_t T, std::int64_t C) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const float* in = x + i / C * T * C + i % C;
    float sum = 0;
    for (std::int64_t t = 0; t < T; ++t) sum += in[t * C];
    y[i] = sum / static_cast<float>(T);
  }
}

__global__ void mean_positions_backward_elements(float* d_x, const float* d_y, std::int64_t count,
                                                 std::int64_t T, std::int64_t C) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    d_x[i] = d_y[i / (T * C) * C + i % C] / static_cast<float>(T);
  }
}

}  // namespace

void CudaKernels::clear(float* x, std::int64_t count) {
  cuda::launch(stream(), "clearing", clear_elements, cuda::blocks_up_to(count, kThreads), kThreads,
               0, x, count);
}

void CudaKernels::narrow(__nv_bfloat16* out, const float* in, std::int64_t count) {
  cuda::launch(stream(), "rounding to bf16", narrow_elements, cuda::blocks_up_to(count, kThreads),
               kThreads, 0, out, in, count);
}

void CudaKernels::widen(float* out, const __nv_bfloat16* in, std::int64_t count) {
  cuda::launch(stream(), "widening bf16", widen_elements, cuda::blocks_up_to(count, kThreads),
               kThreads, 0, out, in, count);
}

void CudaKernels::gelu(Numbers act, Numbers pre, std::int64_t count) {
  cuda::typed(act, [&]<typename T>(T* out) {
    cuda::launch(stream(), "gelu", gelu_elements<T>, cuda::blocks_up_to(count, kThreads), kThreads,
                 0, out, static_cast<const T*>(pre.data), count);
  });
}

void CudaKernels::gelu_backward(Numbers d_act, Numbers pre, std::int64_t count) {
  cuda::typed(d_act, [&]<typename T>(T* gradient) {
    cuda::launch(stream(), "gelu_backward", gelu_backward_elements<T>,
                 cuda::blocks_up_to(count, kThreads), kThreads, 0, gradient,
                 static_cast<T*>(pre.data), count);
  });
}

void CudaKernels::embedding_forward(float* x, const std::int32_t* tokens, const float* token_table,
                                    const float* position_table, std::int64_t B, std::int64_t T,
                                    std::int64_t C) {
  const std::int64_t count = B * T * C;
  cuda::launch(stream(), "embedding_forward", embedding_forward_elements,
               cuda::blocks_up_to(count, kThreads), kThreads, 0, x, tokens, token_table,
               position_table, count, T, C);
}

void CudaKernels::add_positions(float* x, const float* table, std::int64_t B, std::int64_t T,
                                std::int64_t C) {
  cuda::launch(stream(), "add_positions", add_positions_elements,
               cuda::blocks_up_to(B * T * C, kThreads), kThreads, 0, x, table, B * T * C, T * C);
}

void CudaKernels::add_positions_backward(float* d_table, const float* d_x, std::int64_t B,
                                         std::int64_t T, std::int64_t C) {
  cuda::launch(stream(), "add_positions_backward", add_positions_backward_elements,
               cuda::blocks_up_to(T * C, kThreads), kThreads, 0, d_table, d_x, B, T * C);
}

void CudaKernels::mean_positions(float* y, const float* x, std::int64_t B, std::int64_t T,
                                 std::int64_t C) {
  cuda::launch(stream(), "mean_positions", mean_positions_elements,
               cuda::blocks_up_to(B * C, kThreads), kThreads, 0, y, x, B * C, T, C);
}

void CudaKernels::mean_positions_backward(float* d_x, const float* d_y, std::int64_t B,
                                          std::int64_t T, std::int64_t C) {
  cuda::launch(stream(), "mean_positions_backward", mean_positions_backward_elements,
               cuda::blocks_up_to(B * T * C, kThreads), kThreads, 0, d_x, d_y, B * T * C, T, C);
}

}  // namespace archipelago::kernels
