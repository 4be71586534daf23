#pragma once

#include <cstdint>

#include "model/storage.h"

namespace archipelago::model {

// A sublayer of the residual stream: out = in + f(in), over rows of one width. It registers its
// tensors and activations with the Plan when it is made; a new kind of block is one class.
class Module {
 public:
  virtual ~Module() = default;

  // `in` and `out` are [batch * T, C]; `in` stays as it is until backward.
  virtual void forward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                       float* out, std::int64_t batch) = 0;

  // `d_stream`[batch * T, C]: the gradient of `out` comes, that of `in` goes. Those of the
  // parameters are added. `rounded` is what comes as Kernels::rounded() has it, in the work area
  // `normed` where it is not d_stream itself; what goes is returned in the same way.
  virtual kernels::ConstNumbers backward(kernels::Kernels& kernels, const Storage& storage,
                                         const float* in, float* d_stream,
                                         kernels::ConstNumbers rounded, std::int64_t batch) = 0;
};

// Layer norm with its kept statistics, part of other modules.
class LayerNorm {
 public:
  LayerNorm(Plan& plan, const std::string& name, std::int64_t width);

  void forward(kernels::Kernels& kernels, const Storage& storage, kernels::Numbers out,
               const float* in, std::int64_t rows) const;
  // The output again, from `in` and the kept statistics.
  void forward_again(kernels::Kernels& kernels, const Storage& storage, kernels::Numbers out,
                     const float* in, std::int64_t rows) const;
  // Adds to `d_in` and returns it rounded, in `room`, as Kernels::layer_norm_backward().
  kernels::ConstNumbers backward(kernels::Kernels& kernels, const Storage& storage, float* d_in,
                                 kernels::ConstNumbers d_out, const float* in, float* room,
                                 std::int64_t rows) const;

 private:
  std::int64_t width_;
  Parameter weight_, bias_;
  Activation mean_, rstd_;
};

}  // namespace archipelago::model
