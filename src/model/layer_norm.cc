#include "model/module.h"

namespace archipelago::model {

LayerNorm::LayerNorm(Plan& plan, const std::string& name, std::int64_t width)
    : width_(width),
      weight_(plan.add(name + ".weight", {width}, TensorRole::vector)),
      bias_(plan.add(name + ".bias", {width}, TensorRole::vector)),
      mean_(plan.keep(1)),
      rstd_(plan.keep(1)) {}

void LayerNorm::forward(kernels::Kernels& kernels, const Storage& storage, kernels::Numbers out,
                        const float* in, std::int64_t rows) const {
  kernels.layer_norm_forward(out, storage.activation(mean_), storage.activation(rstd_), in,
                             storage.value(weight_), storage.value(bias_), rows, width_);
}

void LayerNorm::forward_again(kernels::Kernels& kernels, const Storage& storage,
                              kernels::Numbers out, const float* in, std::int64_t rows) const {
  kernels.layer_norm_again(out, in, storage.activation(mean_), storage.activation(rstd_),
                           storage.value(weight_), storage.value(bias_), rows, width_);
}

kernels::ConstNumbers LayerNorm::backward(kernels::Kernels& kernels, const Storage& storage,
                                          float* d_in, kernels::ConstNumbers d_out, const float* in,
                                          float* room, std::int64_t rows) const {
  return kernels.layer_norm_backward(d_in, storage.gradient(weight_), storage.gradient(bias_),
                                     d_out, in, storage.activation(mean_),
                                     storage.activation(rstd_), storage.value(weight_), room, rows,
                                     width_);
}

}  // namespace archipelago::model
