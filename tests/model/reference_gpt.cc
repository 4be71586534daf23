#include "reference_gpt.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>

namespace archipelago::reference {
namespace {

class ReferenceGpt {
 public:
  ReferenceGpt(const config::Model& config, std::span<const model::TensorInfo> tensors,
               const Array& parameters)
      : config_(config) {
    for (const model::TensorInfo& tensor : tensors) {
      const auto begin = parameters.begin() + tensor.offset;
      values_[tensor.name] = Array(begin, begin + tensor.size);
    }
  }

  GptLosses losses(const model::Batch& batch) const {
    const std::int64_t C = config_.width;
    const std::int64_t V = config_.vocabulary;
    const std::vector<std::int32_t> inputs(batch.inputs.begin(), batch.inputs.end());
    const std::vector<std::int32_t> targets(batch.targets.begin(), batch.targets.end());
    const Array& table = values_.at("wte.weight");
    Array x = embedding(inputs, table, values_.at("wpe.weight"), config_.context, C);
    double router_losses = 0;
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string block = "h." + std::to_string(layer) + ".";
      Array y = norm(block + "ln_1", x);
      y = map(block + "attn.c_attn", y, C);
      y = attention(y, true, batch.batch, config_.context, C, config_.heads);
      x = sum(x, map(block + "attn.c_proj", y, C));
      y = norm(block + "ln_2", x);
      x = sum(x, config_.kind == "moe" ? experts(block + "mlp.", y, router_losses)
                                       : feed_forward(block + "mlp.", y));
    }
    x = norm("ln_f", x);
    const auto R = static_cast<std::int64_t>(inputs.size());
    const Array logits = product(x, transposed(table, V, C), R, V, C);
    double counted = 0;
    for (const std::int32_t target : targets) counted += target >= 0 ? 1 : 0;
    const double loss = dot(cross_entropy(logits, targets, V), Array(inputs.size(), 1.0)) / counted;
    return {loss, loss + router_losses};
  }

 private:
  Array norm(const std::string& name, const Array& x) const {
    return layer_norm(x, values_.at(name + ".weight"), values_.at(name + ".bias"));
  }
  Array map(const std::string& name, const Array& x, std::int64_t inputs) const {
    return linear(x, values_.at(name + ".weight"), values_.at(name + ".bias"), inputs);
  }

  Array feed_forward(const std::string& name, const Array& x) const {
    return map(name + "c_proj", gelu(map(name + "c_fc", x, config_.width)), 4 * config_.width);
  }

  // Row by row, every expert on every row, the unchosen ones thrown away.
  Array experts(const std::string& name, const Array& x, double& router_losses) const {
    const std::int64_t C = config_.width;
    const std::int64_t E = config_.experts;
    const auto R = static_cast<std::int64_t>(x.size()) / C;
    const Array logits = product(x, values_.at(name + "router.weight"), R, E, C);
    std::vector<Array> results;
    for (std::int64_t e = 0; e < E; ++e) {
      results.push_back(feed_forward(name + "experts." + std::to_string(e) + ".", x));
    }
    Array y(x.size(), 0.0);
    Array load(E, 0.0);
    Array mean_probability(E, 0.0);
    for (std::int64_t r = 0; r < R; ++r) {
      const double* row = logits.data() + r * E;
      std::vector<std::int64_t> order(E);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, std::greater<>(), [&](std::int64_t e) { return row[e]; });
      double all = 0;
      double chosen = 0;
      for (std::int64_t i = 0; i < E; ++i) {
        all += std::exp(row[order[i]]);
        if (i < config_.experts_per_token) chosen += std::exp(row[order[i]]);
      }
      router_losses += config_.router_z_loss * std::pow(std::log(all), 2) / static_cast<double>(R);
      for (std::int64_t i = 0; i < E; ++i) {
        const std::int64_t e = order[i];
        mean_probability[e] += std::exp(row[e]) / all / static_cast<double>(R);
        if (i >= config_.experts_per_token) continue;
        load[e] += 1.0 / static_cast<double>(R * config_.experts_per_token);
        for (std::int64_t c = 0; c < C; ++c) {
          y[r * C + c] += std::exp(row[e]) / chosen * results[e][r * C + c];
        }
      }
    }
    router_losses += config_.balance_loss * static_cast<double>(E) * dot(load, mean_probability);
    return y;
  }

  config::Model config_;
  std::map<std::string, Array> values_;
};

}  // namespace

GptLosses gpt_losses(const config::Model& config, std::span<const model::TensorInfo> tensors,
                     const Array& parameters, const model::Batch& batch) {
  return ReferenceGpt(config, tensors, parameters).losses(batch);
}

}  // namespace archipelago::reference
