#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <memory>

namespace archipelago::kernels::cuda {

class Dnn;

// Shapes as in kernels/kernels.h: qkv[B*T, 3*C] holds queries, keys and values side by side, head h
// at columns h*D of each; everything else about a sequence is [B*T, C].
struct AttentionShape {
  std::int64_t B;
  std::int64_t T;
  std::int64_t NH;
  std::int64_t D;
  bool causal;

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t C() const { return NH * D; }
};

// cuDNN's scaled dot-product attention over bf16, one graph a shape, made at its first use.
class FusedAttention {
 public:
  // `dnn` outlives this. `deterministic`: gradients with the same bits in every run.
  FusedAttention(Dnn& dnn, bool deterministic);
  ~FusedAttention();

  // Head widths that cuDNN has forward and backward for on every GPU since sm_80.
  static bool takes(std::int64_t D) { return D % 8 == 0 && D <= 128; }

  // Both queue their work. False where this cuDNN has no plan for the shape on this GPU: then
  // nothing is queued. log_sum[B, NH, T] is f32.
  [[nodiscard]] bool forward(const AttentionShape& shape, __nv_bfloat16* out, float* log_sum,
                             const __nv_bfloat16* qkv);
  [[nodiscard]] bool backward(const AttentionShape& shape, __nv_bfloat16* d_qkv,
                              const __nv_bfloat16* d_out, const __nv_bfloat16* out,
                              const float* log_sum, const __nv_bfloat16* qkv);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace archipelago::kernels::cuda
