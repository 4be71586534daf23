#include "reference_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>

namespace archipelago::reference {
namespace {

class ReferenceModel {
 public:
  ReferenceModel(const config::Model& config, std::span<const model::TensorInfo> tensors,
                 const Array& parameters)
      : config_(config) {
    for (const model::TensorInfo& tensor : tensors) {
      const auto begin = parameters.begin() + tensor.offset;
      values_[tensor.name] = Array(begin, begin + tensor.size);
    }
  }

  Losses losses(const model::Batch& batch) const {
    const std::vector<std::int32_t> targets(batch.targets.begin(), batch.targets.end());
    double router_losses = 0;
    const Array logits = logits_of(batch, router_losses);
    double counted = 0;
    for (const std::int32_t target : targets) counted += target >= 0 ? 1 : 0;
    const double loss =
        dot(cross_entropy(logits, targets, config_.vocabulary), Array(targets.size(), 1.0)) /
        counted;
    return {loss, loss + router_losses};
  }

 private:
  Array logits_of(const model::Batch& batch, double& router_losses) const {
    if (config_.kind == "linear") {
      const Array pixels(batch.images.begin(), batch.images.end());
      return map("head", pixels, static_cast<std::int64_t>(pixels.size()) / batch.batch);
    }
    const bool images = config_.kind == "vit";
    const Array x = trunk(images ? embed_images(batch) : embed_tokens(batch), batch.batch, !images,
                          router_losses);
    return images ? classify(x, batch.batch) : predict(x);
  }

  Array embed_tokens(const model::Batch& batch) const {
    return embedding({batch.inputs.begin(), batch.inputs.end()}, values_.at("wte.weight"),
                     values_.at("wpe.weight"), config_.context, config_.width);
  }

  // A convolution whose stride is its kernel's size.
  Array embed_images(const model::Batch& batch) const {
    const std::int64_t S = config_.image, P = config_.patch, channels = config_.image_channels;
    Array patches;
    for (std::int64_t b = 0; b < batch.batch; ++b) {
      for (std::int64_t top = 0; top < S; top += P) {
        for (std::int64_t left = 0; left < S; left += P) {
          for (std::int64_t i = 0; i < channels * P * P; ++i) {
            const std::int64_t channel = i / (P * P), y = top + i / P % P, x = left + i % P;
            patches.push_back(batch.images[((b * channels + channel) * S + y) * S + x]);
          }
        }
      }
    }
    Array x = map("patches", patches, channels * P * P);
    const Array& table = values_.at("positions.weight");
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += table[i % table.size()];
    return x;
  }

  Array trunk(Array x, std::int64_t batch, bool causal, double& router_losses) const {
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string block = "h." + std::to_string(layer) + ".";
      Array y = map(block + "attn.c_attn", norm(block + "ln_1", x), config_.width);
      y = attention(y, causal, batch, config_.context, config_.width, config_.heads);
      x = sum(x, map(block + "attn.c_proj", y, config_.width));
      y = norm(block + "ln_2", x);
      x = sum(x, config_.kind == "moe" ? experts(block + "mlp.", y, router_losses)
                                       : feed_forward(block + "mlp.", y));
    }
    return norm("ln_f", x);
  }

  Array predict(const Array& x) const {
    const std::int64_t C = config_.width, V = config_.vocabulary;
    return product(x, transposed(values_.at("wte.weight"), V, C),
                   static_cast<std::int64_t>(x.size()) / C, V, C);
  }

  Array classify(const Array& x, std::int64_t batch) const {
    const std::int64_t T = config_.context, C = config_.width;
    Array mean(batch * C, 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      mean[at / (T * C) * C + at % C] += x[i] / static_cast<double>(T);
    }
    return map("head", mean, C);
  }

  Array norm(const std::string& name, const Array& x) const {
    return layer_norm(x, values_.at(name + ".weight"), values_.at(name + ".bias"));
  }
  Array map(const std::string& name, const Array& x, std::int64_t inputs) const {
    return linear(x, values_.at(name + ".weight"), values_.at(name + ".bias"), inputs);
  }

  Array feed_forward(const std::string& name, const Array& x) const {
    const auto inner = static_cast<std::int64_t>(values_.at(name + "c_fc.bias").size());
    return map(name + "c_proj", gelu(map(name + "c_fc", x, config_.width)), inner);
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

Losses model_losses(const config::Model& config, std::span<const model::TensorInfo> tensors,
                    const Array& parameters, const model::Batch& batch) {
  return ReferenceModel(config, tensors, parameters).losses(batch);
}

}  // namespace archipelago::reference
