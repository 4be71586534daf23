#include "reference_gpt.h"

#include <map>
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

  double loss(const model::Batch& batch) const {
    const std::int64_t C = config_.width;
    const std::int64_t V = config_.vocabulary;
    const std::vector<std::int32_t> inputs(batch.inputs.begin(), batch.inputs.end());
    const std::vector<std::int32_t> targets(batch.targets.begin(), batch.targets.end());
    const Array& table = values_.at("wte.weight");
    Array x = embedding(inputs, table, values_.at("wpe.weight"), config_.context, C);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string block = "h." + std::to_string(layer) + ".";
      Array y = norm(block + "ln_1", x);
      y = map(block + "attn.c_attn", y, C);
      y = attention(y, true, batch.batch, config_.context, C, config_.heads);
      x = sum(x, map(block + "attn.c_proj", y, C));
      y = map(block + "mlp.c_fc", norm(block + "ln_2", x), C);
      x = sum(x, map(block + "mlp.c_proj", gelu(y), 4 * C));
    }
    x = norm("ln_f", x);
    const auto R = static_cast<std::int64_t>(inputs.size());
    const Array logits = product(x, transposed(table, V, C), R, V, C);
    double counted = 0;
    for (const std::int32_t target : targets) counted += target >= 0 ? 1 : 0;
    return dot(cross_entropy(logits, targets, V), Array(inputs.size(), 1.0)) / counted;
  }

 private:
  Array norm(const std::string& name, const Array& x) const {
    return layer_norm(x, values_.at(name + ".weight"), values_.at(name + ".bias"));
  }
  Array map(const std::string& name, const Array& x, std::int64_t inputs) const {
    return linear(x, values_.at(name + ".weight"), values_.at(name + ".bias"), inputs);
  }

  config::Model config_;
  std::map<std::string, Array> values_;
};

}  // namespace

double gpt_loss(const config::Model& config, std::span<const model::TensorInfo> tensors,
                const Array& parameters, const model::Batch& batch) {
  return ReferenceGpt(config, tensors, parameters).loss(batch);
}

}  // namespace archipelago::reference
