#include "model/size.h"

#include <string>

#include "model/gpt.h"
#include "model/linear.h"
#include "model/vit.h"

namespace archipelago::model {
namespace {

bool is_expert(const TensorInfo& tensor) {
  return tensor.name.find(".experts.") != std::string::npos;
}

// Tables that are looked up in, not multiplied with.
bool is_lookup(const TensorInfo& tensor) {
  return tensor.name == "wpe.weight" || tensor.name == "positions.weight";
}

}  // namespace

Size size_of(const config::Model& config) {
  const double chosen =
      static_cast<double>(config.experts_per_token) / static_cast<double>(config.experts);
  Size size;
  std::int64_t experts = 0;
  double weights = 0;
  for (const TensorInfo& tensor : describe_tensors(config)) {
    size.parameters += tensor.size;
    if (is_expert(tensor)) experts += tensor.size;
    const bool multiplied = tensor.role != TensorRole::vector && !is_lookup(tensor);
    // An image goes through the head once, not at each of its positions.
    const bool once = tensor.name == "head.weight" && config.context > 1;
    if (!multiplied || once) continue;
    const auto elements = static_cast<double>(tensor.size);
    weights += is_expert(tensor) ? elements * chosen : elements;
  }
  size.active = size.parameters - experts;
  if (experts > 0) size.active += experts * config.experts_per_token / config.experts;
  size.flops = 6.0 * weights;
  if (config.kind != "linear") {
    const auto seen =
        static_cast<double>(config.kind == "vit" ? 2 * config.context : config.context + 1);
    size.flops += 6.0 * static_cast<double>(config.layers * config.width) * seen;
  }
  return size;
}

std::int64_t activation_bytes(const config::Model& config, std::int64_t batch,
                              std::int64_t rows_at_once) {
  if (config.kind == "vit") return Vit::activation_bytes_of(config, batch);
  if (config.kind == "linear") return Linear::activation_bytes_of(config, batch);
  return Gpt::activation_bytes_of(config, batch, rows_at_once);
}

}  // namespace archipelago::model
