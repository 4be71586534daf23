#include "model/moe.h"

namespace archipelago::model {

Moe::Moe(Plan& plan, const std::string& prefix, const MoeShape& shape, ExpertExchange* exchange)
    : shape_(shape),
      norm_(plan, prefix + "ln_2", shape.width),
      router_(
          plan.add(prefix + "mlp.router.weight", {shape.width, shape.experts}, TensorRole::matrix)),
      probabilities_(plan.keep(shape.experts)),
      log_sum_(plan.keep(1)),
      gates_(plan.keep(shape.experts_per_token)),
      inner_(plan.keep(shape.experts_per_token * shape.inner)),
      result_(plan.keep(shape.experts_per_token * shape.width)) {
  const std::int64_t C = shape.width;
  const std::int64_t H = shape.inner;
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    const std::string name = prefix + "mlp.experts." + std::to_string(e) + ".";
    experts_.push_back({.in_weight = plan.add(name + "c_fc.weight", {C, H}, TensorRole::matrix),
                        .in_bias = plan.add(name + "c_fc.bias", {H}, TensorRole::vector),
                        .out_weight = plan.add(name + "c_proj.weight", {H, C}, TensorRole::matrix),
                        .out_bias = plan.add(name + "c_proj.bias", {C}, TensorRole::vector)});
  }
  if (exchange != nullptr) {
    parallel_ = std::make_unique<ExpertParallel>(*exchange, experts_, C, H);
  }
  plan.work(WorkArea::normed, C);
  // Backward: d_normed, and one expert's rows in, their gradient and that of its inner layer; the
  // router's gradients.
  plan.work(WorkArea::wide, 3 * C + H + shape.experts + shape.experts_per_token);
}

void Moe::Routes::reserve(kernels::Kernels& kernels, std::int64_t count, std::int64_t experts) {
  if (chosen.size() >= count) return;
  chosen = kernels::IndexBuffer(kernels, count);
  places = kernels::IndexBuffer(kernels, count);
  rows = kernels::IndexBuffer(kernels, count);
  gates = kernels::Buffer(kernels, count);
  first = kernels::IndexBuffer(kernels, experts + 1);
  load = kernels::Buffer(kernels, experts);
  host_first.resize(static_cast<std::size_t>(experts + 1));
}

void Moe::forward(kernels::Kernels& kernels, const Storage& storage, const float* in, float* out,
                  std::int64_t batch) {
  const std::int64_t R = batch * shape_.positions;
  const std::int64_t C = shape_.width;
  const std::int64_t E = shape_.experts;
  const std::int64_t K = shape_.experts_per_token;
  float* normed = storage.work(WorkArea::normed);
  float* probabilities = storage.activation(probabilities_);
  float* gates = storage.activation(gates_);
  routes_.reserve(kernels, R * K, E);
  norm_.forward(kernels, storage, normed, in, R);
  kernels.matmul(probabilities, normed, storage.value(router_), kernels::Transpose::neither, false,
                 R, E, C);
  kernels.route_forward(probabilities, storage.activation(log_sum_), routes_.chosen.data(), gates,
                        R, E, K);
  kernels.group_by_expert(routes_.first.data(), routes_.places.data(), routes_.rows.data(),
                          routes_.gates.data(), routes_.load.data(), routes_.chosen.data(), gates,
                          R, E, K);
  routes_.first.copy_out(routes_.host_first);

  float* result = storage.activation(result_);
  experts_forward(kernels, storage, normed, result);
  kernels.combine_forward(out, in, result, routes_.places.data(), gates, R, C, K);
}

void Moe::experts_forward(kernels::Kernels& kernels, const Storage& storage, const float* normed,
                          float* result) {
  const std::int64_t C = shape_.width;
  const std::int64_t H = shape_.inner;
  const std::int64_t places = routes_.begin(experts_.size());
  if (parallel_) {
    kernels.gather_rows(sent_.reserve(kernels, places * C), normed, routes_.rows.data(), nullptr,
                        places, C);
    parallel_->forward(kernels, storage, sent_.data(), routes_.host_first, result);
    return;
  }
  float* rows_in = storage.work(WorkArea::wide);
  const kernels::Numbers act = kernels.compact(rows_in + places / shape_.experts_per_token * C);
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const std::int64_t first = routes_.begin(e);
    const std::int64_t count = routes_.count(e);
    if (count == 0) continue;
    const Expert& expert = experts_[e];
    kernels.gather_rows(rows_in, normed, routes_.rows.data() + first, nullptr, count, C);
    kernels.linear_gelu_forward(act, kernels.compact(storage.activation(inner_) + first * H),
                                rows_in, storage.value(expert.in_weight),
                                storage.value(expert.in_bias), count, C, H);
    kernels.linear_forward(result + first * C, act, storage.value(expert.out_weight),
                           storage.value(expert.out_bias), nullptr, count, H, C);
  }
}

void Moe::experts_backward(kernels::Kernels& kernels, const Storage& storage, const float* normed,
                           const float* d_out, float* d_normed, float* work) {
  const std::int64_t C = shape_.width;
  if (!parallel_) {
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      expert_backward(kernels, storage, e, normed, d_out, d_normed, work);
    }
    return;
  }
  const std::int64_t places = routes_.begin(experts_.size());
  kernels.gather_rows(sent_.data(), d_out, routes_.rows.data(), routes_.gates.data(), places, C);
  parallel_->backward(kernels, storage, sent_.data(), sent_.data());
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const std::int64_t first = routes_.begin(e);
    kernels.scatter_rows(d_normed, sent_.data() + first * C, routes_.rows.data() + first,
                         routes_.count(e), C);
  }
}

void Moe::expert_backward(kernels::Kernels& kernels, const Storage& storage, std::size_t index,
                          const float* normed, const float* d_out, float* d_normed, float* work) {
  const std::int64_t C = shape_.width;
  const std::int64_t H = shape_.inner;
  const std::int64_t first = routes_.begin(index);
  const std::int64_t count = routes_.count(index);
  if (count == 0) return;
  const Expert& expert = experts_[index];
  const std::int32_t* rows = routes_.rows.data() + first;
  const kernels::Numbers inner = kernels.compact(storage.activation(inner_) + first * H);
  float* d_result = work;
  float* rows_in = d_result + count * C;
  const kernels::Numbers d_inner = kernels.compact(rows_in + count * C);

  kernels.gather_rows(d_result, d_out, rows, routes_.gates.data() + first, count, C);
  kernels.linear_backward_input(d_inner, d_result, storage.value(expert.out_weight), count, H, C);
  kernels.gelu_backward(d_inner, inner, count * H);
  kernels.linear_backward_weight(storage.gradient(expert.out_weight),
                                 storage.gradient(expert.out_bias), inner, d_result, count, H, C);
  kernels.gather_rows(rows_in, normed, rows, nullptr, count, C);
  kernels.linear_backward_weight(storage.gradient(expert.in_weight),
                                 storage.gradient(expert.in_bias), rows_in, d_inner, count, C, H);
  float* d_rows_in = rows_in;
  kernels.linear_backward_input(d_rows_in, d_inner, storage.value(expert.in_weight), count, C, H);
  kernels.scatter_rows(d_normed, d_rows_in, rows, count, C);
}

kernels::ConstNumbers Moe::backward(kernels::Kernels& kernels, const Storage& storage,
                                    const float* in, float* d_stream, kernels::ConstNumbers,
                                    std::int64_t batch) {
  const std::int64_t R = batch * shape_.positions;
  const std::int64_t C = shape_.width;
  const std::int64_t E = shape_.experts;
  const std::int64_t K = shape_.experts_per_token;
  float* normed = storage.work(WorkArea::normed);
  float* d_normed = storage.work(WorkArea::wide);
  float* d_logits = d_normed + R * C;
  float* d_gates = d_logits + R * E;
  float* expert_work = d_gates + R * K;
  norm_.forward_again(kernels, storage, normed, in, R);

  kernels.combine_backward(d_gates, d_stream, storage.activation(result_), routes_.places.data(), R,
                           C, K);
  const auto rows = static_cast<double>(R);
  const auto balance_scale =
      static_cast<float>(shape_.balance_loss * static_cast<double>(E) / rows);
  const auto z_scale = static_cast<float>(2.0 * shape_.router_z_loss / rows);
  kernels.route_backward(d_logits, d_gates, storage.activation(probabilities_),
                         storage.activation(log_sum_), routes_.chosen.data(),
                         storage.activation(gates_), routes_.load.data(), balance_scale, z_scale, R,
                         E, K);
  kernels.matmul(storage.gradient(router_), normed, d_logits, kernels::Transpose::left, true, C, E,
                 R);
  kernels.matmul(d_normed, d_logits, storage.value(router_), kernels::Transpose::right, false, R, C,
                 E);
  experts_backward(kernels, storage, normed, d_stream, d_normed, expert_work);
  return norm_.backward(kernels, storage, d_stream, d_normed, in, normed, R);
}

}  // namespace archipelago::model
