#include <utility>

#include "kernels/cuda/cuda_kernels.h"

// Linear maps: cuBLASLt's products with the bias, the residual and the GELU where it can take them
// along.

namespace archipelago::kernels {

ConstNumbers CudaKernels::operand(cuda::Scratch& scratch, ConstNumbers x, std::int64_t count) {
  if (x.precision == device_.precision) return x;
  auto* narrowed = scratch.reserve<__nv_bfloat16>(count);
  narrow(narrowed, x.f32(), count);
  return Numbers(narrowed, Precision::bf16);
}

cuda::Product CudaKernels::product(Numbers c, ConstNumbers a, ConstNumbers b, Transpose transpose,
                                   std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.c = c,
          .a = operand(left_, a, m * k),
          .b = operand(right_, b, k * n),
          .transpose = transpose,
          .m = m,
          .n = n,
          .k = k};
}

cuda::Product CudaKernels::linear_map(Numbers y, ConstNumbers x, const float* weight,
                                      const float* bias, std::int64_t R, std::int64_t I,
                                      std::int64_t O) {
  cuda::Product map = product(y, x, weight, Transpose::neither, R, O, I);
  if (y.precision == Precision::bf16) {
    auto* narrowed = bias_.reserve<__nv_bfloat16>(O);
    narrow(narrowed, bias, O);
    map.bias = narrowed;
  } else if (!cuda::Blas::takes_bias(bias)) {
    float* aligned = bias_.reserve<float>(O);
    copy(aligned, bias, O * static_cast<std::int64_t>(sizeof(float)));
    map.bias = aligned;
  } else {
    map.bias = bias;
  }
  return map;
}

void CudaKernels::multiply_with_bias(cuda::Product map) {
  if (blas_.try_multiply(map, stream())) return;
  const void* bias = std::exchange(map.bias, nullptr);
  blas_.multiply(map, stream());
  add_bias(map.c, bias, map.m, map.n);
}

void CudaKernels::linear_forward(Numbers y, ConstNumbers x, const float* weight, const float* bias,
                                 const float* residual, std::int64_t R, std::int64_t I,
                                 std::int64_t O) {
  cuda::Product map = linear_map(y, x, weight, bias, R, I, O);
  map.add = residual;
  multiply_with_bias(map);
}

void CudaKernels::linear_gelu_forward(Numbers act, Numbers pre, ConstNumbers x, const float* weight,
                                      const float* bias, std::int64_t R, std::int64_t I,
                                      std::int64_t O) {
  cuda::Product map = linear_map(act, x, weight, bias, R, I, O);
  map.pre = pre.data;
  if (cuda::Blas::can_fuse_gelu(pre, O) && blas_.try_multiply(map, stream())) return;
  map.c = pre;
  map.pre = nullptr;
  multiply_with_bias(map);
  gelu(act, pre, R * O);
}

void CudaKernels::linear_backward_input(Numbers d_x, ConstNumbers d_y, const float* weight,
                                        std::int64_t R, std::int64_t I, std::int64_t O) {
  matmul(d_x, d_y, weight, Transpose::right, false, R, I, O);
}

void CudaKernels::linear_backward_weight(float* d_weight, float* d_bias, ConstNumbers x,
                                         ConstNumbers d_y, std::int64_t R, std::int64_t I,
                                         std::int64_t O) {
  matmul(d_weight, x, d_y, Transpose::left, true, I, O, R);
  add_column_sums(d_bias, nullptr, d_y, nullptr, nullptr, nullptr, R, O);
}

void CudaKernels::matmul(Numbers c, ConstNumbers a, ConstNumbers b, Transpose transpose, bool add,
                         std::int64_t m, std::int64_t n, std::int64_t k) {
  cuda::Product map = product(c, a, b, transpose, m, n, k);
  if (add) map.add = c.f32();
  blas_.multiply(map, stream());
}

}  // namespace archipelago::kernels
