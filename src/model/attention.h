#pragma once

#include <optional>
#include <string>

#include "model/module.h"

namespace archipelago::model {

struct AttentionShape {
  std::int64_t positions;
  std::int64_t width;
  std::int64_t heads;
  bool causal;
};

// x + projection(attention(layer_norm(x))), GPT-2's first half of a block.
class Attention final : public Module {
 public:
  // Tensors `prefix`ln_1.* and `prefix`attn.*.
  Attention(Plan& plan, const std::string& prefix, const AttentionShape& shape);

  void forward(kernels::Kernels& kernels, const Storage& storage, const float* in, float* out,
               std::int64_t batch) override;
  kernels::ConstNumbers backward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                                 float* d_stream, kernels::ConstNumbers d_out,
                                 std::int64_t batch) override;

 private:
  AttentionShape shape_;
  LayerNorm norm_;
  Parameter qkv_weight_, qkv_bias_, out_weight_, out_bias_;
  Activation qkv_, mixed_, log_sum_;
  std::optional<Activation> normed_;  // the norm's output, where it is kept
};

}  // namespace archipelago::model
