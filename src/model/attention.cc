#include "model/attention.h"

namespace archipelago::model {

Attention::Attention(Plan& plan, const std::string& prefix, const AttentionShape& shape)
    : shape_(shape),
      norm_(plan, prefix + "ln_1", shape.width),
      qkv_weight_(plan.add(prefix + "attn.c_attn.weight", {shape.width, 3 * shape.width},
                           TensorRole::matrix)),
      qkv_bias_(plan.add(prefix + "attn.c_attn.bias", {3 * shape.width}, TensorRole::vector)),
      out_weight_(
          plan.add(prefix + "attn.c_proj.weight", {shape.width, shape.width}, TensorRole::matrix)),
      out_bias_(plan.add(prefix + "attn.c_proj.bias", {shape.width}, TensorRole::vector)),
      qkv_(plan.keep_compact(3 * shape.width)),
      mixed_(plan.keep_compact(shape.width)),
      log_sum_(plan.keep(shape.heads)) {
  if (plan.keeps_more()) normed_ = plan.keep_compact(shape.width);
  plan.work(WorkArea::normed, shape.width);
  plan.work(WorkArea::wide, 4 * shape.width);
}

void Attention::forward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                        float* out, std::int64_t batch) {
  const auto [T, C, NH, causal] = shape_;
  const std::int64_t rows = batch * T;
  const kernels::Numbers normed =
      kernels.compact(normed_ ? storage.activation(*normed_) : storage.work(WorkArea::normed));
  const kernels::Numbers qkv = kernels.compact(storage.activation(qkv_));
  const kernels::Numbers mixed = kernels.compact(storage.activation(mixed_));
  norm_.forward(kernels, storage, normed, in, rows);
  kernels.linear_forward(qkv, normed, storage.value(qkv_weight_), storage.value(qkv_bias_), nullptr,
                         rows, C, 3 * C);
  kernels.attention_forward(mixed, storage.activation(log_sum_), qkv, causal, batch, T, C, NH);
  kernels.linear_forward(out, mixed, storage.value(out_weight_), storage.value(out_bias_), in, rows,
                         C, C);
}

kernels::ConstNumbers Attention::backward(kernels::Kernels& kernels, const Storage& storage,
                                          const float* in, float* d_stream,
                                          kernels::ConstNumbers d_out, std::int64_t batch) {
  const auto [T, C, NH, causal] = shape_;
  const std::int64_t rows = batch * T;
  const kernels::ConstNumbers qkv = kernels.compact(storage.activation(qkv_));
  const kernels::ConstNumbers mixed = kernels.compact(storage.activation(mixed_));
  const kernels::Numbers d_normed = kernels.compact(storage.work(WorkArea::normed));
  const kernels::Numbers normed =
      normed_ ? kernels.compact(storage.activation(*normed_)) : d_normed;
  const kernels::Numbers d_qkv = kernels.compact(storage.work(WorkArea::wide));
  const kernels::Numbers d_mixed = kernels.compact(storage.work(WorkArea::wide) + rows * 3 * C);
  kernels.linear_backward_weight(storage.gradient(out_weight_), storage.gradient(out_bias_), mixed,
                                 d_out, rows, C, C);
  kernels.linear_backward_input(d_mixed, d_out, storage.value(out_weight_), rows, C, C);
  kernels.attention_backward(d_qkv, d_mixed, mixed, storage.activation(log_sum_), qkv, causal,
                             batch, T, C, NH);
  if (!normed_) norm_.forward_again(kernels, storage, normed, in, rows);
  kernels.linear_backward_weight(storage.gradient(qkv_weight_), storage.gradient(qkv_bias_), normed,
                                 d_qkv, rows, C, 3 * C);
  kernels.linear_backward_input(d_normed, d_qkv, storage.value(qkv_weight_), rows, C, 3 * C);
  return norm_.backward(kernels, storage, d_stream, d_normed, in, storage.work(WorkArea::normed),
                        rows);
}

}  // namespace archipelago::model
