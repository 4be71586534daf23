#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/random.h"
#include "model/gpt.h"
#include "model/linear.h"
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
  if (config.kind == "vit") {
    at_least_one("model.patch", config.patch);
    if (config.image % config.patch != 0) {
      refuse("model.image " + std::to_string(config.image) + " is not a multiple of model.patch " +
             std::to_string(config.patch));
    }
  }
  if (config.context != image_positions(config)) {
    refuse("model.context is " + std::to_string(config.context) + "; a " + config.kind + " makes " +
           std::to_string(image_positions(config)) +
           " positions of such images, so set model.context to that");
  }
}

void check(const config::Model& config) {
  if (config.kind != "gpt" && config.kind != "moe" && !is_image_model(config)) {
    refuse("model.kind is " + config.kind + "; it must be one of gpt, moe, vit, linear");
  }
  if (is_image_model(config)) check_images(config);
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
  if (config.width % config.heads != 0) {
    refuse("model.width " + std::to_string(config.width) + " is not a multiple of model.heads " +
           std::to_string(config.heads));
  }
}

bool ends_with(const std::string& name, const char* suffix) {
  return std::string_view(name).ends_with(suffix);
}

double initial_deviation(const TensorInfo& tensor, const config::Model& config) {
  double deviation = 0.02;
  if (config.kind == "vit") {
    if (tensor.role == TensorRole::matrix) {
      deviation = 1 / std::sqrt(static_cast<double>(tensor.shape[0]));
    } else if (tensor.name == "positions.weight") {
      deviation = 0.2;
    }
  }
  const bool projection = ends_with(tensor.name, "c_proj.weight");
  return projection ? deviation / std::sqrt(2.0 * static_cast<double>(config.layers)) : deviation;
}

}  // namespace

void Model::next_logits(std::span<const std::int32_t>, std::span<float>) {
  throw Error(ExitCode::configuration, "an image model has no next token; use a text model");
}

bool is_image_model(const config::Model& config) {
  return config.kind == "vit" || config.kind == "linear";
}

std::int64_t image_positions(const config::Model& config) {
  return config.kind == "vit" ? patch_count(config) : 1;
}

std::unique_ptr<Model> make_model(const config::Model& config, std::int64_t max_batch, int threads,
                                  ExpertExchange* exchange) {
  return make_model(config, max_batch, kernels::make_cpu_kernels(threads), exchange);
}

std::unique_ptr<Model> make_model(const config::Model& config, std::int64_t max_batch,
                                  std::shared_ptr<kernels::Kernels> kernels,
                                  ExpertExchange* exchange) {
  check(config);
  if (max_batch < 1) {
    throw Error(ExitCode::configuration, "train.batch leaves no sequence for this rank");
  }
  if (config.kind == "vit") return std::make_unique<Vit>(config, max_batch, kernels);
  if (config.kind == "linear") return std::make_unique<Linear>(config, max_batch, kernels);
  return std::make_unique<Gpt>(config, max_batch, kernels, exchange);
}

std::vector<TensorInfo> describe_tensors(const config::Model& config) {
  check(config);
  if (config.kind == "vit") return VitPlan(config).plan.tensors();
  if (config.kind == "linear") return LinearPlan(config).plan.tensors();
  return GptPlan(config).plan.tensors();
}

void initialize_parameters(std::span<const TensorInfo> tensors, const config::Model& config,
                           std::uint64_t seed, std::span<float> parameters) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    const auto values = parameters.subspan(static_cast<std::size_t>(tensor.offset),
                                           static_cast<std::size_t>(tensor.size));
    if (tensor.role == TensorRole::vector) {
      std::fill(values.begin(), values.end(), ends_with(tensor.name, ".bias") ? 0.0F : 1.0F);
      continue;
    }
    const double deviation = initial_deviation(tensor, config);
    Random random(mix_bits(seed) ^ mix_bits(i + 1));
    for (float& value : values) value = static_cast<float>(deviation * random.normal());
  }
}

void initialize_on_device(Model& model, const config::Model& config, std::uint64_t seed) {
  const auto parameters = model.parameters();
  if (model.kernels().on_host()) {
    initialize_parameters(model.tensors(), config, seed, parameters);
    return;
  }
  std::vector<float> values(parameters.size());
  initialize_parameters(model.tensors(), config, seed, values);
  model.kernels().copy_in(parameters.data(), values.data(),
                          static_cast<std::int64_t>(parameters.size_bytes()));
}

}  // namespace archipelago::model
