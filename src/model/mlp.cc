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
      inner_(plan.keep_compact(4 * width)) {
  if (plan.keeps_more()) {
    normed_ = plan.keep_compact(width);
    act_ = plan.keep_compact(4 * width);
  }
  plan.work(WorkArea::normed, width);
  plan.work(WorkArea::wide, 4 * width);
}

void Mlp::forward(kernels::Kernels& kernels, const Storage& storage, const float* in, float* out,
                  std::int64_t batch) {
  const std::int64_t rows = batch * positions_;
  const std::int64_t C = width_;
  const kernels::Numbers normed =
      kernels.compact(normed_ ? storage.activation(*normed_) : storage.work(WorkArea::normed));
  const kernels::Numbers act =
      kernels.compact(act_ ? storage.activation(*act_) : storage.work(WorkArea::wide));
  norm_.forward(kernels, storage, normed, in, rows);
  kernels.linear_gelu_forward(act, kernels.compact(storage.activation(inner_)), normed,
                              storage.value(in_weight_), storage.value(in_bias_), rows, C, 4 * C);
  kernels.linear_forward(out, act, storage.value(out_weight_), storage.value(out_bias_), in, rows,
                         4 * C, C);
}

kernels::ConstNumbers Mlp::backward(kernels::Kernels& kernels, const Storage& storage,
                                    const float* in, float* d_stream, kernels::ConstNumbers d_out,
                                    std::int64_t batch) {
  const std::int64_t rows = batch * positions_;
  const std::int64_t C = width_;
  const kernels::Numbers d_normed = kernels.compact(storage.work(WorkArea::normed));
  const kernels::Numbers normed =
      normed_ ? kernels.compact(storage.activation(*normed_)) : d_normed;
  const kernels::Numbers d_inner = kernels.compact(storage.work(WorkArea::wide));
  const kernels::Numbers inner = kernels.compact(storage.activation(inner_));
  const kernels::Numbers act = act_ ? kernels.compact(storage.activation(*act_)) : inner;
  if (act_) {
    kernels.linear_gelu_backward_input(d_inner, d_out, storage.value(out_weight_), inner, rows,
                                       4 * C, C);
  } else {
    kernels.linear_backward_input(d_inner, d_out, storage.value(out_weight_), rows, 4 * C, C);
    kernels.gelu_backward(d_inner, inner, rows * 4 * C);
  }
  kernels.linear_backward_weight(storage.gradient(out_weight_), storage.gradient(out_bias_), act,
                                 d_out, rows, 4 * C, C);
  if (!normed_) norm_.forward_again(kernels, storage, normed, in, rows);
  kernels.linear_backward_weight(storage.gradient(in_weight_), storage.gradient(in_bias_), normed,
                                 d_inner, rows, C, 4 * C);
  kernels.linear_backward_input(d_normed, d_inner, storage.value(in_weight_), rows, C, 4 * C);
  return norm_.backward(kernels, storage, d_stream, d_normed, in, storage.work(WorkArea::normed),
                        rows);
}

}  // namespace archipelago::model
