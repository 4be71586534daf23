#include "kernels/cuda/cuda_kernels.h"

// Attention by cuDNN over bf16, copies where the model's numbers are not, where it has a plan, else
// by the f32 kernels.

namespace archipelago::kernels {
namespace {

// cuDNN wants its tensors so; what a model keeps begins anywhere.
bool is_aligned(const void* memory) {
  constexpr std::uintptr_t kBytes = 16;
  return reinterpret_cast<std::uintptr_t>(memory) % kBytes == 0;
}

bool is_for_cudnn(const ConstNumbers& x) {
  return x.precision == Precision::bf16 && is_aligned(x.data);
}

// Where results are made: where they are to stand, if they may.
__nv_bfloat16* place_for(const Numbers& results, __nv_bfloat16* room) {
  return is_for_cudnn(results) ? static_cast<__nv_bfloat16*>(results.data) : room;
}

const __nv_bfloat16* narrow_ones(const ConstNumbers& x) {
  return static_cast<const __nv_bfloat16*>(x.data);
}

constexpr std::int64_t kBf16 = sizeof(__nv_bfloat16);
constexpr std::int64_t kF32 = sizeof(float);

}  // namespace

const __nv_bfloat16* CudaKernels::as_bf16(__nv_bfloat16* room, ConstNumbers x, std::int64_t count) {
  if (is_for_cudnn(x)) return narrow_ones(x);
  if (x.precision == Precision::bf16) {
    copy(room, x.data, count * kBf16);
  } else {
    narrow(room, x.f32(), count);
  }
  return room;
}

void CudaKernels::hand_over(Numbers to, const __nv_bfloat16* made, std::int64_t count) {
  if (to.precision == Precision::f32) {
    widen(to.f32(), made, count);
  } else if (to.data != made) {
    copy(to.data, made, count * kBf16);
  }
}

bool CudaKernels::fused_attention_forward(Numbers out, float* log_sum, ConstNumbers qkv,
                                          const cuda::AttentionShape& shape) {
  if (fused_attention_ == nullptr || !cuda::FusedAttention::takes(shape.D)) return false;
  const std::int64_t count = shape.B * shape.T * shape.C();
  const std::int64_t sums = shape.B * shape.NH * shape.T;
  auto* out_room = right_.reserve<__nv_bfloat16>(count);
  float* statistics = is_aligned(log_sum) ? log_sum : sums_.reserve<float>(sums);
  const auto* in = as_bf16(left_.reserve<__nv_bfloat16>(3 * count), qkv, 3 * count);
  __nv_bfloat16* made = place_for(out, out_room);
  if (!fused_attention_->forward(shape, made, statistics, in)) return false;
  hand_over(out, made, count);
  if (statistics != log_sum) copy(log_sum, statistics, sums * kF32);
  return true;
}

void CudaKernels::attention_forward(Numbers out, float* log_sum, ConstNumbers qkv, bool causal,
                                    std::int64_t B, std::int64_t T, std::int64_t C,
                                    std::int64_t NH) {
  if (fused_attention_forward(out, log_sum, qkv, {B, T, NH, C / NH, causal})) return;
  if (qkv.precision == Precision::f32) {
    attention_forward_f32(out.f32(), log_sum, qkv.f32(), causal, B, T, C, NH);
    return;
  }
  const std::int64_t count = B * T * C;
  auto* in = left_.reserve<float>(3 * count);
  auto* made = right_.reserve<float>(count);
  widen(in, narrow_ones(qkv), 3 * count);
  attention_forward_f32(made, log_sum, in, causal, B, T, C, NH);
  narrow(static_cast<__nv_bfloat16*>(out.data), made, count);
}

bool CudaKernels::fused_attention_backward(Numbers d_qkv, ConstNumbers d_out, ConstNumbers out,
                                           const float* log_sum, ConstNumbers qkv,
                                           const cuda::AttentionShape& shape) {
  if (fused_attention_ == nullptr || !cuda::FusedAttention::takes(shape.D)) return false;
  const std::int64_t count = shape.B * shape.T * shape.C();
  const std::int64_t sums = shape.B * shape.NH * shape.T;
  auto* room = right_.reserve<__nv_bfloat16>(5 * count);
  const auto* in = as_bf16(left_.reserve<__nv_bfloat16>(3 * count), qkv, 3 * count);
  const auto* mixed = as_bf16(room, out, count);
  const auto* d_mixed = as_bf16(room + count, d_out, count);
  __nv_bfloat16* made = place_for(d_qkv, room + 2 * count);
  const float* statistics = log_sum;
  if (!is_aligned(log_sum)) {
    float* aligned = sums_.reserve<float>(sums);
    copy(aligned, log_sum, sums * kF32);
    statistics = aligned;
  }
  if (!fused_attention_->backward(shape, made, d_mixed, mixed, statistics, in)) return false;
  hand_over(d_qkv, made, 3 * count);
  return true;
}

void CudaKernels::attention_backward(Numbers d_qkv, ConstNumbers d_out, ConstNumbers out,
                                     const float* log_sum, ConstNumbers qkv, bool causal,
                                     std::int64_t B, std::int64_t T, std::int64_t C,
                                     std::int64_t NH) {
  if (fused_attention_backward(d_qkv, d_out, out, log_sum, qkv, {B, T, NH, C / NH, causal})) return;
  if (qkv.precision == Precision::f32) {
    attention_backward_f32(d_qkv.f32(), d_out.f32(), out.f32(), log_sum, qkv.f32(), causal, B, T, C,
                           NH);
    return;
  }
  const std::int64_t count = B * T * C;
  auto* in = left_.reserve<float>(3 * count);
  auto* mixed = right_.reserve<float>(5 * count);
  float* d_mixed = mixed + count;
  float* made = d_mixed + count;
  widen(in, narrow_ones(qkv), 3 * count);
  widen(mixed, narrow_ones(out), count);
  widen(d_mixed, narrow_ones(d_out), count);
  attention_backward_f32(made, d_mixed, mixed, log_sum, in, causal, B, T, C, NH);
  narrow(static_cast<__nv_bfloat16*>(d_qkv.data), made, 3 * count);
}

}  // namespace archipelago::kernels
