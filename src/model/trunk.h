#pragma once

#include <memory>
#include <vector>

#include "model/module.h"

namespace archipelago::model {

// What the networks have in common: blocks of attention and feed-forward over a residual stream,
// and a final norm.
class Trunk {
 public:
  // Tensors h.<layer>.* and ln_f.*; the feed-forward halves are mixtures of experts for kind moe.
  Trunk(Plan& plan, const config::Model& config, std::int64_t positions, bool causal);

  // Where the caller puts the embedded batch[batch * T, C] before forward.
  float* input(const Storage& storage) const { return storage.activation(streams_.front()); }

  // Leaves the final norm's output in the work area `normed` and returns it.
  float* forward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch);

  // From the gradient of forward's output, in its place, to the gradient of the input, which it
  // returns.
  const float* backward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch);

 private:
  std::int64_t positions_;
  std::int64_t width_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<Activation> streams_;  // before each module and after the last
  std::unique_ptr<LayerNorm> final_norm_;
  Activation d_stream_;
};

}  // namespace archipelago::model
