#pragma once

#include <optional>
#include <string>

#include "model/module.h"

namespace archipelago::model {

// x + projection(gelu(expansion(layer_norm(x)))), four times as wide inside: GPT-2's second half of
// a block.
class Mlp final : public Module {
 public:
  // Tensors `prefix`ln_2.* and `prefix`mlp.*.
  Mlp(Plan& plan, const std::string& prefix, std::int64_t positions, std::int64_t width);

  void forward(kernels::Kernels& kernels, const Storage& storage, const float* in, float* out,
               std::int64_t batch) override;
  kernels::ConstNumbers backward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                                 float* d_stream, kernels::ConstNumbers d_out,
                                 std::int64_t batch) override;

 private:
  std::int64_t positions_;
  std::int64_t width_;
  LayerNorm norm_;
  Parameter in_weight_, in_bias_, out_weight_, out_bias_;
  // Before the GELU in forward; after it once backward has been there, if that is not kept.
  Activation inner_;
  std::optional<Activation> normed_, act_;  // the outputs of norm and GELU, where they are kept
};

}  // namespace archipelago::model
