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

// Grows in the first step only.
void Moe::Routes::resize(std::int64_t count, std::int64_t experts) {
  const auto size = static_cast<std::size_t>(count);
  chosen.resize(size);
  places.resize(size);
  rows.resize(size);
  gates.resize(size);
  load.resize(static_cast<std::size_t>(experts));
}

void Moe::group_by_expert(const float* gates, std::int64_t rows) {
  const std::int64_t places = rows * shape_.experts_per_token;
  auto& first = routes_.first;
  first.assign(static_cast<std::size_t>(shape_.experts + 1), 0);
  for (std::int64_t i = 0; i < places; ++i) ++first[routes_.chosen[i] + 1];
  for (std::int64_t e = 0; e < shape_.experts; ++e) {
    routes_.load[e] = static_cast<float>(first[e + 1]) / static_cast<float>(places);
    first[e + 1] += first[e];
  }
  auto& next = routes_.next;
  next.assign(first.begin(), first.end());
  for (std::int64_t i = 0; i < places; ++i) {
    const std::int64_t place = next[routes_.chosen[i]]++;
    routes_.places[i] = static_cast<std::int32_t>(place);
    routes_.rows[place] = static_cast<std::int32_t>(i / shape_.experts_per_token);
    routes_.gates[place] = gates[i];
  }
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
  routes_.resize(R * K, E);
  norm_.forward(kernels, storage, normed, in, R);
  kernels.matmul(probabilities, normed, storage.value(router_), kernels::Transpose::neither, false,
                 R, E, C);
  kernels.route_forward(probabilities, storage.activation(log_sum_), routes_.chosen.data(), gates,
                        R, E, K);
  group_by_expert(gates, R);

  float* result = storage.activation(result_);
  experts_forward(kernels, storage, normed, result);
  kernels.combine_forward(out, in, result, routes_.places.data(), gates, R, C, K);
}

void Moe::experts_forward(kernels::Kernels& kernels, const Storage& storage, const float* normed,
                          float* result) {
  const std::int64_t C = shape_.width;
  const std::int64_t H = shape_.inner;
  const auto places = static_cast<std::int64_t>(routes_.rows.size());
  if (parallel_) {
    if (sent_.size() < places * C) sent_ = kernels::Buffer(kernels, places * C);
    kernels.gather_rows(sent_.data(), normed, routes_.rows.data(), nullptr, places, C);
    parallel_->forward(kernels, storage, sent_.data(), routes_.first, result);
    return;
  }
  float* rows_in = storage.work(WorkArea::wide);
  float* act = rows_in + places / shape_.experts_per_token * C;
  for (std::int64_t e = 0; e < shape_.experts; ++e) {
    const std::int64_t first = routes_.first[e];
    const std::int64_t count = routes_.first[e + 1] - first;
    if (count == 0) continue;
    const Expert& expert = experts_[e];
    kernels.gather_rows(rows_in, normed, routes_.rows.data() + first, nullptr, count, C);
    kernels.linear_gelu_forward(act, storage.activation(inner_) + first * H, rows_in,
                                storage.value(expert.in_weight), storage.value(expert.in_bias),
                                count, C, H);
    kernels.linear_forward(result + first * C, act, storage.value(expert.out_weight),
                           storage.value(expert.out_bias), nullptr, count, H, C);
  }
}

void Moe::experts_backward(kernels::Kernels& kernels, const Storage& storage, const float* normed,
                           const float* d_out, float* d_normed, float* work) {
  const std::int64_t C = shape_.width;
  if (!parallel_) {
    for (std::int64_t e = 0; e < shape_.experts; ++e) {
      expert_backward(kernels, storage, e, normed, d_out, d_normed, work);
    }
    return;
  }
  const auto places = static_cast<std::int64_t>(routes_.rows.size());
  kernels.gather_rows(sent_.data(), d_out, routes_.rows.data(), routes_.gates.data(), places, C);
  parallel_->backward(kernels, storage, sent_.data(), sent_.data());
  for (std::int64_t e = 0; e < shape_.experts; ++e) {
    const std::int64_t first = routes_.first[e];
    kernels.scatter_rows(d_normed, sent_.data() + first * C, routes_.rows.data() + first,
                         routes_.first[e + 1] - first, C);
  }
}

void Moe::expert_backward(kernels::Kernels& kernels, const Storage& storage, std::int64_t index,
                          const float* normed, const float* d_out, float* d_normed, float* work) {
  const std::int64_t C = shape_.width;
  const std::int64_t H = shape_.inner;
  const std::int64_t first = routes_.first[index];
  const std::int64_t count = routes_.first[index + 1] - first;
  if (count == 0) return;
  const Expert& expert = experts_[index];
  const std::int32_t* rows = routes_.rows.data() + first;
  float* inner = storage.activation(inner_) + first * H;
  float* d_result = work;
  float* rows_in = d_result + count * C;
  float* d_inner = rows_in + count * C;

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

void Moe::backward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                   float* d_stream, std::int64_t batch) {
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
  norm_.backward(kernels, storage, d_stream, d_normed, in, R);
}

}  // namespace archipelago::model
