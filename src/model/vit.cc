#include "model/vit.h"

#include <utility>

#include "model/images.h"

namespace archipelago::model {
namespace {

kernels::PatchShape patch_shape(const config::Model& config, std::int64_t batch) {
  return {batch, config.image_channels, config.image, config.patch, config.width};
}

// Numbers in a patch.
std::int64_t patch_size(const config::Model& config) { return patch_shape(config, 1).I(); }

}  // namespace

std::int64_t patch_count(const config::Model& config) { return patch_shape(config, 1).T(); }

VitPlan::VitPlan(const config::Model& config, Plan empty)
    : plan(std::move(empty)),
      patch_weight(
          plan.add("patches.weight", {patch_size(config), config.width}, TensorRole::matrix)),
      patch_bias(plan.add("patches.bias", {config.width}, TensorRole::vector)),
      position_table(
          plan.add("positions.weight", {patch_count(config), config.width}, TensorRole::table)),
      trunk(plan, config, patch_count(config), false, nullptr),
      head_weight(plan.add("head.weight", {config.width, config.vocabulary}, TensorRole::table)),
      head_bias(plan.add("head.bias", {config.vocabulary}, TensorRole::vector)),
      patches(plan.keep(patch_size(config))) {}

Vit::Vit(const config::Model& config, std::int64_t max_batch,
         std::shared_ptr<kernels::Kernels> kernels)
    : Network(config, std::move(kernels), max_batch * patch_count(config)),
      positions_(patch_count(config)),
      max_batch_(max_batch),
      pooled_(*kernels_, max_batch * config.width),
      logits_(*kernels_, max_batch * config.vocabulary),
      losses_(*kernels_, max_batch),
      images_(*kernels_, max_batch * image_numbers(config)),
      targets_(*kernels_, max_batch) {}

float Vit::forward_backward(const Batch& batch) {
  check_image_batch(config_, batch, max_batch_);
  forward(batch);
  const float mean_loss = cross_entropy(batch, true);
  backward(batch);
  return mean_loss;
}

float Vit::loss(const Batch& batch) {
  check_image_batch(config_, batch, max_batch_);
  forward(batch);
  return cross_entropy(batch, false);
}

void Vit::forward(const Batch& batch) {
  const std::int64_t B = batch.batch;
  const std::int64_t C = config_.width;
  float* embedded = parts_.trunk.input(storage_);
  kernels_->round_parameters(storage_.parameters());
  images_.copy_in(batch.images);
  targets_.copy_in(batch.targets);
  kernels_->patch_embedding_forward(embedded, storage_.activation(parts_.patches), images_.data(),
                                    storage_.value(parts_.patch_weight),
                                    storage_.value(parts_.patch_bias), patch_shape(config_, B));
  kernels_->add_positions(embedded, storage_.value(parts_.position_table), B, positions_, C);
  const float* normed = parts_.trunk.forward(*kernels_, storage_, B);
  kernels_->mean_positions(pooled_.data(), normed, B, positions_, C);
  kernels_->linear_forward(logits_.data(), pooled_.data(), storage_.value(parts_.head_weight),
                           storage_.value(parts_.head_bias), nullptr, B, C, config_.vocabulary);
}

float Vit::cross_entropy(const Batch& batch, bool gradients) {
  const ClassScore score = score_classes(*kernels_, logits_.data(), losses_.data(), targets_.data(),
                                         batch.targets, config_.vocabulary, gradients);
  accuracy_ = score.accuracy;
  return score.loss;
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
  const float* d_embedded = parts_.trunk.backward(*kernels_, storage_, B, gradients_ready());
  kernels_->add_positions_backward(storage_.gradient(parts_.position_table), d_embedded, B,
                                   positions_, C);
  kernels_->patch_embedding_backward(
      storage_.gradient(parts_.patch_weight), storage_.gradient(parts_.patch_bias),
      storage_.activation(parts_.patches), images_.data(), d_embedded, patch_shape(config_, B));
}

std::int64_t Vit::activation_bytes_of(const config::Model& config, std::int64_t batch) {
  // Also the image, its class and its loss.
  const std::int64_t head = config.width + config.vocabulary + image_numbers(config) + 2;
  return static_cast<std::int64_t>(sizeof(float)) * batch *
         (patch_count(config) * VitPlan(config).plan.per_row() + head);
}

}  // namespace archipelago::model
