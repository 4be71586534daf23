#pragma once

#include <memory>
#include <vector>

#include "model/expert_parallel.h"
#include "model/model.h"
#include "model/module.h"

namespace archipelago::model {

// What the networks have in common: blocks of attention and feed-forward over a residual stream,
// and a final norm.
class Trunk {
 public:
  // Tensors h.<layer>.* and ln_f.*; the feed-forward halves are mixtures of experts for kind moe,
  // divided among the ranks of `exchange` unless that is null.
  Trunk(Plan& plan, const config::Model& config, std::int64_t positions, bool causal,
        ExpertExchange* exchange);

  // Where the caller puts the embedded batch[batch * T, C] before forward.
  float* input(const Storage& storage) const { return storage.activation(streams_.front()); }

  // Leaves the final norm's output in the work area `normed` and returns it.
  float* forward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch);

  // From the gradient of forward's output, in its place, to the gradient of the input, which it
  // returns. `ready`, where there is one, is told of each module's gradients.
  const float* backward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch,
                        const GradientsReady& ready);

 private:
  struct Block {
    std::unique_ptr<Module> attention;
    Activation middle;  // the stream between the two
    std::unique_ptr<Module> feed_forward;
    std::int64_t first_element;   // of its parameters in the flat buffer
    std::int64_t middle_element;  // of those of the feed-forward half
  };

  void forward(kernels::Kernels& kernels, const Storage& storage, std::size_t block,
               std::int64_t batch);

  std::int64_t positions_;
  std::int64_t width_;
  bool recompute_;  // all blocks share the memory of one, except for the streams between them
  std::vector<Activation> streams_;  // before each block and after the last
  Activation d_stream_;
  std::vector<Block> blocks_;
  std::unique_ptr<LayerNorm> final_norm_;
  std::int64_t norm_element_;  // first of the final norm's parameters
};

}  // namespace archipelago::model
