#include <utility>

#include "kernels/cuda/cuda_kernels.h"

// Linear maps: cuBLASLt's products with the bias, the residual and the GELU where it can take them
// along.

namespace archipelago::kernels {

ConstNumbers CudaKernels::rounded(const float* x, float* room, std::int64_t count) {
  if (device_.precision == Precision::f32) return x;
  narrow(reinterpret_cast<__nv_bfloat16*>(room), x, count);
  return Numbers(room, Precision::bf16);
}

void CudaKernels::round_parameters(std::span<const float> parameters) {
  if (device_.precision == Precision::f32) return;
  const std::int64_t count = std::ssize(parameters);
  narrow(rounded_.reserve<__nv_bfloat16>(count), parameters.data(), count);
  parameters_ = parameters;
}

const __nv_bfloat16* CudaKernels::rounded_parameter(const float* x, std::int64_t count) const {
  constexpr std::int64_t kAligned = 16 / sizeof(__nv_bfloat16);
  if (parameters_.empty()) return nullptr;
  const std::int64_t offset = x - parameters_.data();
  const bool inside = offset >= 0 && offset + count <= std::ssize(parameters_);
  return inside && offset % kAligned == 0 ? rounded_.get<__nv_bfloat16>() + offset : nullptr;
}

void CudaKernels::forget_rounded(const void* x) {
  const auto* begin = static_cast<const float*>(x);
  if (begin >= parameters_.data() && begin < parameters_.data() + parameters_.size()) {
    parameters_ = {};
  }
}

ConstNumbers CudaKernels::operand(cuda::Scratch& scratch, ConstNumbers x, std::int64_t count) {
  if (x.precision == device_.precision) return x;
  if (const __nv_bfloat16* parameter = rounded_parameter(x.f32(), count)) {
    return Numbers(const_cast<__nv_bfloat16*>(parameter), Precision::bf16);
  }
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
    map.bias = operand(bias_, bias, O).data;
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

void CudaKernels::linear_gelu_backward_input(Numbers d_pre, ConstNumbers d_y, const float* weight,
                                             ConstNumbers pre, std::int64_t R, std::int64_t I,
                                             std::int64_t O) {
  cuda::Product map = product(d_pre, d_y, weight, Transpose::right, R, I, O);
  map.slope_at = pre.data;
  if (cuda::Blas::can_fuse_gelu(pre, I) && blas_.try_multiply(map, stream())) return;
  map.slope_at = nullptr;
  blas_.multiply(map, stream());
  multiply_by_gelu_slope(d_pre, pre, R * I);
}

void CudaKernels::linear_backward_weight(float* d_weight, float* d_bias, ConstNumbers x,
                                         ConstNumbers d_y, std::int64_t R, std::int64_t I,
                                         std::int64_t O) {
  matmul(d_weight, x, d_y, Transpose::left, true, I, O, R);
  add_column_sums(d_bias, d_y, R, O);
}

void CudaKernels::matmul(Numbers c, ConstNumbers a, ConstNumbers b, Transpose transpose, bool add,
                         std::int64_t m, std::int64_t n, std::int64_t k) {
  cuda::Product map = product(c, a, b, transpose, m, n, k);
  if (add) map.add = c.f32();
  blas_.multiply(map, stream());
}

}  // namespace archipelago::kernels
