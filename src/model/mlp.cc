#include "model/mlp.h"

namespace archipelago::model {

Mlp::Mlp(Plan& plan, const std::string& prefix, std::int64_t positions, std::int64_t width)
    : positions_(positions),
      width_(width),
      norm_(plan, prefix + "ln_2", width),
      in_weight_(plan.add(prefix + "mlp.c_fc.weight", {width, 4 * width}, TensorRole::matrix)),
      in_bias_(plan.add(prefix + "mlp.c_fc.bias", {4 * width}, TensorRole::vector)),
      out_weight_(plan.add(prefix + "mlp.c_proj.weight", {4 * width, width}, TensorRole::matrix)),
      out_bias_(plan.add(prefix + "mlp.c_proj.bias", {width}, TensorRole::vector)),
      inner_(plan.keep(4 * width)) {
  plan.work(WorkArea::normed, width);
  plan.work(WorkArea::wide, 4 * width);
}

void Mlp::forward(kernels::Kernels& kernels, const Storage& storage, const float* in, float* out,
                  std::int64_t batch) {
  const std::int64_t rows = batch * positions_;
  const std::int64_t C = width_;
  const kernels::Numbers normed = kernels.compact(storage.work(WorkArea::normed));
  const kernels::Numbers act = kernels.compact(storage.work(WorkArea::wide));
  norm_.forward(kernels, storage, normed, in, rows);
  kernels.linear_gelu_forward(act, kernels.compact(storage.activation(inner_)), normed,
                              storage.value(in_weight_), storage.value(in_bias_), rows, C, 4 * C);
  kernels.linear_forward(out, act, storage.value(out_weight_), storage.value(out_bias_), in, rows,
                         4 * C, C);
}

void Mlp::backward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                   float* d_stream, std::int64_t batch) {
  const std::int64_t rows = batch * positions_;
  const std::int64_t C = width_;
  const kernels::Numbers normed = kernels.compact(storage.work(WorkArea::normed));
  const kernels::Numbers d_inner = kernels.compact(storage.work(WorkArea::wide));
  const kernels::Numbers inner = kernels.compact(storage.activation(inner_));
  // Where the norm's output is later.
  const kernels::ConstNumbers d_out =
      kernels.rounded(d_stream, storage.work(WorkArea::normed), rows * C);
  kernels.linear_backward_input(d_inner, d_out, storage.value(out_weight_), rows, 4 * C, C);
  kernels.gelu_backward(d_inner, inner, rows * 4 * C);
  kernels.linear_backward_weight(storage.gradient(out_weight_), storage.gradient(out_bias_), inner,
                                 d_out, rows, 4 * C, C);
  norm_.forward_again(kernels, storage, normed, in, rows);
  kernels.linear_backward_weight(storage.gradient(in_weight_), storage.gradient(in_bias_), normed,
                                 d_inner, rows, C, 4 * C);
  const kernels::Numbers d_normed = normed;
  kernels.linear_backward_input(d_normed, d_inner, storage.value(in_weight_), rows, C, 4 * C);
  norm_.backward(kernels, storage, d_stream, d_normed, in, rows);
}

}  // namespace archipelago::model
