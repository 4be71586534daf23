#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/kernels.h"

// Numbers of either type, for kernels that are made for both.

namespace archipelago::kernels::cuda {

__device__ inline float load(const float* x) { return *x; }
__device__ inline float load(const __nv_bfloat16* x) { return __bfloat162float(*x); }
__device__ inline void store(float* x, float value) { *x = value; }
__device__ inline void store(__nv_bfloat16* x, float value) { *x = __float2bfloat16(value); }

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
