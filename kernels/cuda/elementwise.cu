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

// gelu'(u), with the gate at u.
__device__ float gelu_slope(float u, float gate) {
  const float slope = 1.5957691216057308F + 0.2140644488178F * u * u;  // d(2z)/du
  // Far out the slope is large where gate * (1 - gate) is 0.
  const float bend = gate * (1.0F - gate);
  return gate + (bend > 0 ? u * bend * slope : 0.0F);
}

template <int N>
__global__ void clear_elements(float* x, std::int64_t count) {
  const float zeros[N] = {};
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) store(x + i, zeros);
}

// From one type of numbers to the other.
template <int N, typename Out, typename In>
__global__ void convert_elements(Out* out, const In* in, std::int64_t count) {
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    float values[N];
    load(values, in + i);
    store(out + i, values);
  }
}

template <int N, typename T>
__global__ void gelu_elements(T* act, const T* pre, std::int64_t count) {
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    float values[N];
    load(values, pre + i);
    for (float& u : values) u *= gelu_gate(u);
    store(act + i, values);
  }
}

template <int N, typename T>
__global__ void gelu_backward_elements(T* d_act, T* pre, std::int64_t count) {
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    float values[N];
    float gradients[N];
    load(values, pre + i);
    load(gradients, d_act + i);
    for (int k = 0; k < N; ++k) {
      const float u = values[k];
      const float gate = gelu_gate(u);
      values[k] = u * gate;
      gradients[k] *= gelu_slope(u, gate);
    }
    store(pre + i, values);
    store(d_act + i, gradients);
  }
}

template <int N, typename T>
__global__ void gelu_slope_elements(T* d_pre, const T* pre, std::int64_t count) {
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    float values[N];
    float gradients[N];
    load(values, pre + i);
    load(gradients, d_pre + i);
    for (int k = 0; k < N; ++k) gradients[k] *= gelu_slope(values[k], gelu_gate(values[k]));
    store(d_pre + i, gradients);
  }
}

template <typename T>
__global__ void add_bias_elements(T* y, const T* bias, std::int64_t count, std::int64_t O) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    store(y + i, load(y + i) + load(bias + i % O));
  }
}

template <int N>
__global__ void embedding_forward_elements(float* x, const std::int32_t* tokens,
                                           const float* token_table, const float* position_table,
                                           std::int64_t count, std::int64_t T, std::int64_t C) {
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    const std::int64_t row = i / C;
    const std::int64_t c = i % C;
    float values[N];
    float positions[N];
    load(values, token_table + tokens[row] * C + c);
    load(positions, position_table + row % T * C + c);
    for (int k = 0; k < N; ++k) values[k] += positions[k];
    store(x + i, values);
  }
}

__global__ void add_positions_elements(float* x, const float* table, std::int64_t count,
                                       std::int64_t sequence) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) x[i] += table[i % sequence];
}

// Also the position table's part of an embedding's gradient.
template <int N>
__global__ void add_positions_backward_elements(float* d_table, const float* d_x, std::int64_t B,
                                                std::int64_t sequence) {
  for (std::int64_t i = grid_thread() * N; i < sequence; i += grid_threads() * N) {
    float sums[N] = {};
    for (std::int64_t b = 0; b < B; ++b) {
      float values[N];
      load(values, d_x + b * sequence + i);
      for (int k = 0; k < N; ++k) sums[k] += values[k];
    }
    float table[N];
    load(table, d_table + i);
    for (int k = 0; k < N; ++k) table[k] += sums[k];
    store(d_table + i, table);
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
  cuda::in_vectors<4>(
      count,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "clearing", clear_elements<N>,
                     cuda::blocks_up_to(count, N * kThreads), kThreads, 0, x, count);
      },
      x);
}

void CudaKernels::narrow(__nv_bfloat16* out, const float* in, std::int64_t count) {
  cuda::in_vectors<4>(
      count,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "rounding to bf16", convert_elements<N, __nv_bfloat16, float>,
                     cuda::blocks_up_to(count, N * kThreads), kThreads, 0, out, in, count);
      },
      out, in);
}

void CudaKernels::widen(float* out, const __nv_bfloat16* in, std::int64_t count) {
  cuda::in_vectors<4>(
      count,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "widening bf16", convert_elements<N, float, __nv_bfloat16>,
                     cuda::blocks_up_to(count, N * kThreads), kThreads, 0, out, in, count);
      },
      out, in);
}

void CudaKernels::gelu(Numbers act, Numbers pre, std::int64_t count) {
  cuda::typed(act, [&]<typename T>(T* out) {
    const auto* in = static_cast<const T*>(pre.data);
    cuda::in_vectors<cuda::kWidest<T>>(
        count,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "gelu", gelu_elements<N, T>,
                       cuda::blocks_up_to(count, N * kThreads), kThreads, 0, out, in, count);
        },
        out, in);
  });
}

void CudaKernels::gelu_backward(Numbers d_act, Numbers pre, std::int64_t count) {
  cuda::typed(d_act, [&]<typename T>(T* gradient) {
    auto* in = static_cast<T*>(pre.data);
    cuda::in_vectors<cuda::kWidest<T>>(
        count,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "gelu_backward", gelu_backward_elements<N, T>,
                       cuda::blocks_up_to(count, N * kThreads), kThreads, 0, gradient, in, count);
        },
        gradient, in);
  });
}

void CudaKernels::multiply_by_gelu_slope(Numbers d_pre, ConstNumbers pre, std::int64_t count) {
  cuda::typed(d_pre, [&]<typename T>(T* gradient) {
    const auto* in = static_cast<const T*>(pre.data);
    cuda::in_vectors<cuda::kWidest<T>>(
        count,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "gelu_backward", gelu_slope_elements<N, T>,
                       cuda::blocks_up_to(count, N * kThreads), kThreads, 0, gradient, in, count);
        },
        gradient, in);
  });
}

void CudaKernels::add_bias(Numbers c, const void* bias, std::int64_t m, std::int64_t n) {
  cuda::typed(c, [&]<typename T>(T* y) {
    cuda::launch(stream(), "adding a bias", add_bias_elements<T>,
                 cuda::blocks_up_to(m * n, kThreads), kThreads, 0, y, static_cast<const T*>(bias),
                 m * n, n);
  });
}

void CudaKernels::embedding_forward(float* x, const std::int32_t* tokens, const float* token_table,
                                    const float* position_table, std::int64_t B, std::int64_t T,
                                    std::int64_t C) {
  const std::int64_t count = B * T * C;
  cuda::in_vectors<4>(
      C,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "embedding_forward", embedding_forward_elements<N>,
                     cuda::blocks_up_to(count, N * kThreads), kThreads, 0, x, tokens, token_table,
                     position_table, count, T, C);
      },
      x, token_table, position_table);
}

void CudaKernels::add_positions(float* x, const float* table, std::int64_t B, std::int64_t T,
                                std::int64_t C) {
  cuda::launch(stream(), "add_positions", add_positions_elements,
               cuda::blocks_up_to(B * T * C, kThreads), kThreads, 0, x, table, B * T * C, T * C);
}

void CudaKernels::add_positions_backward(float* d_table, const float* d_x, std::int64_t B,
                                         std::int64_t T, std::int64_t C) {
  cuda::in_vectors<4>(
      T * C,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "add_positions_backward", add_positions_backward_elements<N>,
                     cuda::blocks_up_to(T * C, N * kThreads), kThreads, 0, d_table, d_x, B, T * C);
      },
      d_table, d_x);
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
