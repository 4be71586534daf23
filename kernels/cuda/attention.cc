#include "kernels/cuda/cuda_kernels.h"

// Attention by cuDNN over bf16 copies where it has a plan, else by the f32 kernels.

namespace archipelago::kernels {
namespace {

// cuDNN wants its tensors so; what a model keeps begins anywhere.
bool is_aligned(const float* memory) {
  constexpr std::uintptr_t kBytes = 16;
  return reinterpret_cast<std::uintptr_t>(memory) % kBytes == 0;
}

}  // namespace

bool CudaKernels::fuses_attention(std::int64_t D) const {
  return fused_attention_ != nullptr && cuda::FusedAttention::takes(D);
}

void CudaKernels::attention_forward(float* out, float* log_sum, const float* qkv, bool causal,
                                    std::int64_t B, std::int64_t T, std::int64_t C,
                                    std::int64_t NH) {
  const cuda::AttentionShape shape{B, T, NH, C / NH, causal};
  if (fuses_attention(shape.D)) {
    auto* qkv_narrow = left_.reserve<__nv_bfloat16>(B * T * 3 * C);
    auto* out_narrow = right_.reserve<__nv_bfloat16>(B * T * C);
    float* statistics = is_aligned(log_sum) ? log_sum : sums_.reserve<float>(B * NH * T);
    narrow(qkv_narrow, qkv, B * T * 3 * C);
    if (fused_attention_->forward(shape, out_narrow, statistics, qkv_narrow)) {
      widen(out, out_narrow, B * T * C);
      if (statistics != log_sum) copy(log_sum, statistics, B * NH * T);
      return;
    }
  }
  attention_forward_f32(out, log_sum, qkv, causal, B, T, C, NH);
}

void CudaKernels::attention_backward(float* d_qkv, const float* d_out, const float* out,
                                     const float* log_sum, const float* qkv, bool causal,
                                     std::int64_t B, std::int64_t T, std::int64_t C,
                                     std::int64_t NH) {
  const cuda::AttentionShape shape{B, T, NH, C / NH, causal};
  if (fuses_attention(shape.D)) {
    const std::int64_t count = B * T * C;
    auto* qkv_narrow = left_.reserve<__nv_bfloat16>(3 * count);
    auto* rest = right_.reserve<__nv_bfloat16>(5 * count);
    __nv_bfloat16* out_narrow = rest;
    __nv_bfloat16* d_out_narrow = rest + count;
    __nv_bfloat16* d_qkv_narrow = rest + 2 * count;
    narrow(qkv_narrow, qkv, 3 * count);
    narrow(out_narrow, out, count);
    narrow(d_out_narrow, d_out, count);
    const float* statistics = log_sum;
    if (!is_aligned(log_sum)) {
      float* aligned = sums_.reserve<float>(B * NH * T);
      copy(aligned, log_sum, B * NH * T);
      statistics = aligned;
    }
    if (fused_attention_->backward(shape, d_qkv_narrow, d_out_narrow, out_narrow, statistics,
                                   qkv_narrow)) {
      widen(d_qkv, d_qkv_narrow, 3 * count);
      return;
    }
  }
  attention_backward_f32(d_qkv, d_out, out, log_sum, qkv, causal, B, T, C, NH);
}

}  // namespace archipelago::kernels
