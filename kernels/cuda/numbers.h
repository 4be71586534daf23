#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/kernels.h"

// Numbers of either type, for kernels that are made for both.

namespace archipelago::kernels::cuda {

__device__ inline float load(const float* x) { return *x; }
__device__ inline float load(const __nv_bfloat16* x) { return __bfloat162float(*x); }
__device__ inline void store(float* x, float value) { *x = value; }
__device__ inline void store(__nv_bfloat16* x, float value) { *x = __float2bfloat16(value); }

// `N` numbers that are read or written at once.
template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
  T of[N];
};

// As many as a thread can read or write at once, 16 bytes.
template <typename T>
constexpr int kWidest = 16 / sizeof(T);

template <int N, typename T>
__device__ inline void load(float (&values)[N], const T* x) {
  const auto vector = *reinterpret_cast<const Vector<T, N>*>(x);
  for (int i = 0; i < N; ++i) values[i] = load(vector.of + i);
}
template <int N, typename T>
__device__ inline void store(T* x, const float (&values)[N]) {
  Vector<T, N> vector;
  for (int i = 0; i < N; ++i) store(vector.of + i, values[i]);
  *reinterpret_cast<Vector<T, N>*>(x) = vector;
}

// Calls body(std::integral_constant) with N where all of these arrays can be gone through N numbers
// at a time, in rows of `count`, else with 1.
template <int N, typename Body, typename... T>
void in_vectors(std::int64_t count, const Body& body, const T*... arrays) {
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(arrays) % (N * sizeof(T)) == 0) && ...);
  if (aligned && count % N == 0) {
    body(std::integral_constant<int, N>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

// Calls body with the numbers' pointer as what they are.
template <typename Body>
void typed(const Numbers& numbers, const Body& body) {
  if (numbers.precision == Precision::bf16) {
    body(static_cast<__nv_bfloat16*>(numbers.data));
  } else {
    body(static_cast<float*>(numbers.data));
  }
}

template <typename Body>
void typed(const ConstNumbers& numbers, const Body& body) {
  if (numbers.precision == Precision::bf16) {
    body(static_cast<const __nv_bfloat16*>(numbers.data));
  } else {
    body(static_cast<const float*>(numbers.data));
  }
}

}  // namespace archipelago::kernels::cuda
