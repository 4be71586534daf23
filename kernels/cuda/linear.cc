#include "kernels/cuda/cuda_kernels.h"

// Linear maps: cuBLASLt's products with the bias, the residual and the GELU where it can take them
// along.

namespace archipelago::kernels {

cuda::Operand CudaKernels::operand(cuda::Scratch& scratch, const float* x, std::int64_t count) {
  if (device_.precision == Precision::f32) return {x, CUDA_R_32F};
  auto* narrowed = scratch.reserve<__nv_bfloat16>(count);
  narrow(narrowed, x, count);
  return {narrowed, CUDA_R_16BF};
}

cuda::Product CudaKernels::product(float* c, const float* a, const float* b, Transpose transpose,
                                   std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.c = c,
          .a = operand(left_, a, m * k),
          .b = operand(right_, b, k * n),
          .transpose = transpose,
          .m = m,
          .n = n,
          .k = k};
}

void CudaKernels::linear_forward(float* y, const float* x, const float* weight, const float* bias,
                                 const float* residual, std::int64_t R, std::int64_t I,
                                 std::int64_t O) {
  cuda::Product map = product(y, x, weight, Transpose::neither, R, O, I);
  map.bias = bias;
  map.add = residual;
  blas_.multiply(map, stream());
}

void CudaKernels::linear_gelu_forward(float* act, float* pre, const float* x, const float* weight,
                                      const float* bias, std::int64_t R, std::int64_t I,
                                      std::int64_t O) {
  cuda::Product map = product(act, x, weight, Transpose::neither, R, O, I);
  map.bias = bias;
  map.pre = pre;
  if (cuda::Blas::can_fuse_gelu(pre, O) && blas_.try_multiply(map, stream())) return;
  map.c = pre;
  map.pre = nullptr;
  blas_.multiply(map, stream());
  gelu(act, pre, R * O);
}

void CudaKernels::linear_backward_input(float* d_x, const float* d_y, const float* weight,
                                        std::int64_t R, std::int64_t I, std::int64_t O) {
  matmul(d_x, d_y, weight, Transpose::right, false, R, I, O);
}

void CudaKernels::linear_backward_weight(float* d_weight, float* d_bias, const float* x,
                                         const float* d_y, std::int64_t R, std::int64_t I,
                                         std::int64_t O) {
  matmul(d_weight, x, d_y, Transpose::left, true, I, O, R);
  add_column_sums(d_bias, nullptr, d_y, nullptr, nullptr, nullptr, R, O);
}

void CudaKernels::matmul(float* c, const float* a, const float* b, Transpose transpose, bool add,
                         std::int64_t m, std::int64_t n, std::int64_t k) {
  cuda::Product map = product(c, a, b, transpose, m, n, k);
  if (add) map.add = c;
  blas_.multiply(map, stream());
}

}  // namespace archipelago::kernels
