#include "model/vit.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace archipelago::model {
namespace {

std::int64_t patch_size(const config::Model& config) {
  return config.image_channels * config.patch * config.patch;
}

}  // namespace

std::int64_t patch_count(const config::Model& config) {
  const std::int64_t across = config.image / config.patch;
  return across * across;
}

VitPlan::VitPlan(const config::Model& config)
    : patch_weight(
          plan.add("patches.weight", {patch_size(config), config.width}, TensorRole::matrix)),
      patch_bias(plan.add("patches.bias", {config.width}, TensorRole::vector)),
      position_table(
          plan.add("positions.weight", {patch_count(config), config.width}, TensorRole::table)),
      trunk(plan, config, patch_count(config), false),
      head_weight(plan.add("head.weight", {config.width, config.vocabulary}, TensorRole::table)),
      head_bias(plan.add("head.bias", {config.vocabulary}, TensorRole::vector)),
      patches(plan.keep(patch_size(config))) {}

Vit::Vit(const config::Model& config, std::int64_t max_batch, int threads)
    : config_(config),
      positions_(patch_count(config)),
      patch_size_(patch_size(config)),
      max_batch_(max_batch),
      kernels_(kernels::make_cpu_kernels(threads)),
      parts_(config),
      storage_(*kernels_, parts_.plan, max_batch * positions_),
      pooled_(*kernels_, max_batch * config.width),
      logits_(*kernels_, max_batch * config.vocabulary),
      losses_(*kernels_, max_batch) {}

void Vit::initialize(std::uint64_t seed) {
  initialize_parameters(tensors(), static_cast<int>(config_.layers), seed, parameters());
}

float Vit::forward_backward(const Batch& batch) {
  check(batch);
  forward(batch);
  const float mean_loss = cross_entropy(batch, true);
  backward(batch);
  return mean_loss;
}

float Vit::loss(const Batch& batch) {
  check(batch);
  forward(batch);
  return cross_entropy(batch, false);
}

void Vit::next_logits(std::span<const std::int32_t>, std::span<float>) {
  throw Error(ExitCode::configuration, "an image model has no next token; use a text model");
}

void Vit::check(const Batch& batch) const {
  if (batch.images.empty()) {
    throw Error(ExitCode::configuration,
                "model.kind vit needs images, and the data file holds text; use gpt or moe");
  }
  const std::int64_t numbers = config_.image_channels * config_.image * config_.image;
  if (batch.batch < 1 || batch.batch > max_batch_ ||
      batch.images.size() != static_cast<std::size_t>(batch.batch * numbers) ||
      batch.targets.size() != static_cast<std::size_t>(batch.batch)) {
    throw Error(ExitCode::internal, "a batch of " + std::to_string(batch.batch) + " images with " +
                                        std::to_string(batch.images.size()) +
                                        " numbers does not fit a model made for " +
                                        std::to_string(max_batch_) + " images of " +
                                        std::to_string(numbers));
  }
  for (const std::int32_t target : batch.targets) {
    if (target < -1 || target >= config_.vocabulary) {
      throw Error(ExitCode::bad_data, "class " + std::to_string(target) +
                                          " is not one of the model's " +
                                          std::to_string(config_.vocabulary) +
                                          "; use the data file that the model was made for");
    }
  }
}

void Vit::forward(const Batch& batch) {
  const std::int64_t B = batch.batch;
  const std::int64_t C = config_.width;
  float* patches = storage_.activation(parts_.patches);
  float* embedded = parts_.trunk.input(storage_);
  kernels_->cut_patches(patches, batch.images.data(), B, config_.image_channels, config_.image,
                        config_.patch);
  kernels_->linear_forward(embedded, patches, storage_.value(parts_.patch_weight),
                           storage_.value(parts_.patch_bias), nullptr, B * positions_, patch_size_,
                           C);
  kernels_->add_positions(embedded, storage_.value(parts_.position_table), B, positions_, C);
  const float* normed = parts_.trunk.forward(*kernels_, storage_, B);
  kernels_->mean_positions(pooled_.data(), normed, B, positions_, C);
  kernels_->linear_forward(logits_.data(), pooled_.data(), storage_.value(parts_.head_weight),
                           storage_.value(parts_.head_bias), nullptr, B, C, config_.vocabulary);
}

float Vit::cross_entropy(const Batch& batch, bool gradients) {
  const auto counted = std::count_if(batch.targets.begin(), batch.targets.end(),
                                     [](std::int32_t target) { return target >= 0; });
  const float share = counted == 0 ? 1.0F : 1.0F / static_cast<float>(counted);
  kernels_->cross_entropy(losses_.data(), logits_.data(), batch.targets.data(),
                          gradients ? share : 0.0F, batch.batch, config_.vocabulary);
  double sum = 0;
  for (std::int64_t i = 0; i < batch.batch; ++i) sum += static_cast<double>(losses_.data()[i]);
  return static_cast<float>(sum * static_cast<double>(share));
}

void Vit::backward(const Batch& batch) {
  const std::int64_t B = batch.batch;
  const std::int64_t C = config_.width;
  const std::int64_t V = config_.vocabulary;
  const float* d_logits = logits_.data();
  kernels_->linear_backward_weight(storage_.gradient(parts_.head_weight),
                                   storage_.gradient(parts_.head_bias), pooled_.data(), d_logits, B,
                                   C, V);
  float* d_pooled = pooled_.data();
  kernels_->linear_backward_input(d_pooled, d_logits, storage_.value(parts_.head_weight), B, C, V);
  kernels_->mean_positions_backward(storage_.work(WorkArea::normed), d_pooled, B, positions_, C);
  const float* d_embedded = parts_.trunk.backward(*kernels_, storage_, B);
  kernels_->add_positions_backward(storage_.gradient(parts_.position_table), d_embedded, B,
                                   positions_, C);
  kernels_->linear_backward_weight(
      storage_.gradient(parts_.patch_weight), storage_.gradient(parts_.patch_bias),
      storage_.activation(parts_.patches), d_embedded, B * positions_, patch_size_, C);
}

std::int64_t Vit::activation_bytes(std::int64_t batch) const {
  const std::int64_t head = config_.width + config_.vocabulary + 1;
  return static_cast<std::int64_t>(sizeof(float)) * batch *
         (positions_ * parts_.plan.per_row() + head);
}

}  // namespace archipelago::model
