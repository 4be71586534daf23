#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/random.h"
#include "model/gpt.h"
#include "model/vit.h"

namespace archipelago::model {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitCode::configuration, message);
}

void at_least_one(const char* option, std::int64_t value) {
  if (value < 1) {
    refuse(std::string(option) + " is " + std::to_string(value) + "; it must be at least 1");
  }
}

void check_images(const config::Model& config) {
  at_least_one("model.image", config.image);
  at_least_one("model.image_channels", config.image_channels);
  at_least_one("model.patch", config.patch);
  if (config.image % config.patch != 0) {
    refuse("model.image " + std::to_string(config.image) + " is not a multiple of model.patch " +
           std::to_string(config.patch));
  }
  if (config.context != patch_count(config)) {
    refuse("model.context is " + std::to_string(config.context) + "; images of this size have " +
           std::to_string(patch_count(config)) + " patches, so set model.context to that");
  }
}

void check(const config::Model& config) {
  if (config.kind != "gpt" && config.kind != "moe" && config.kind != "vit") {
    refuse("model.kind is " + config.kind + "; it must be one of gpt, moe, vit");
  }
  at_least_one("model.layers", config.layers);
  at_least_one("model.width", config.width);
  at_least_one("model.heads", config.heads);
  at_least_one("model.context", config.context);
  at_least_one("model.vocabulary", config.vocabulary);
  if (config.kind == "moe") {
    at_least_one("model.experts", config.experts);
    at_least_one("model.experts_per_token", config.experts_per_token);
    if (config.experts_per_token > config.experts) {
      refuse("model.experts_per_token " + std::to_string(config.experts_per_token) +
             " is more than model.experts " + std::to_string(config.experts));
    }
  }
  if (config.kind == "vit") check_images(config);
  if (config.width % config.heads != 0) {
    refuse("model.width " + std::to_string(config.width) + " is not a multiple of model.heads " +
           std::to_string(config.heads));
  }
}

bool ends_with(const std::string& name, const char* suffix) {
  return std::string_view(name).ends_with(suffix);
}

}  // namespace

std::unique_ptr<Model> make_model(const config::Model& config, std::int64_t max_batch,
                                  int threads) {
  check(config);
  if (max_batch < 1) {
    throw Error(ExitCode::configuration, "train.batch leaves no sequence for this rank");
  }
  if (config.kind == "vit") return std::make_unique<Vit>(config, max_batch, threads);
  return std::make_unique<Gpt>(config, max_batch, threads);
}

std::vector<TensorInfo> describe_tensors(const config::Model& config) {
  check(config);
  return config.kind == "vit" ? VitPlan(config).plan.tensors() : GptPlan(config).plan.tensors();
}

void initialize_parameters(std::span<const TensorInfo> tensors, int layers, std::uint64_t seed,
                           std::span<float> parameters) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    const auto values = parameters.subspan(static_cast<std::size_t>(tensor.offset),
                                           static_cast<std::size_t>(tensor.size));
    if (tensor.role == TensorRole::vector) {
      std::fill(values.begin(), values.end(), ends_with(tensor.name, ".bias") ? 0.0F : 1.0F);
      continue;
    }
    const double deviation =
        ends_with(tensor.name, "c_proj.weight") ? 0.02 / std::sqrt(2.0 * layers) : 0.02;
    Random random(mix_bits(seed) ^ mix_bits(i + 1));
    for (float& value : values) value = static_cast<float>(deviation * random.normal());
  }
}

}  // namespace archipelago::model
