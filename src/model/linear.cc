#include "model/linear.h"

#include <utility>

#include "model/images.h"

namespace archipelago::model {

LinearPlan::LinearPlan(const config::Model& config, Plan empty)
    : plan(std::move(empty)),
      weight(
          plan.add("head.weight", {image_numbers(config), config.vocabulary}, TensorRole::table)),
      bias(plan.add("head.bias", {config.vocabulary}, TensorRole::vector)) {}

Linear::Linear(const config::Model& config, std::int64_t max_batch,
               std::shared_ptr<kernels::Kernels> kernels)
    : Network(config, std::move(kernels), max_batch),
      max_batch_(max_batch),
      logits_(*kernels_, max_batch * config.vocabulary),
      losses_(*kernels_, max_batch),
      images_(*kernels_, max_batch * image_numbers(config)),
      targets_(*kernels_, max_batch) {}

float Linear::forward_backward(const Batch& batch) {
  const float mean_loss = forward(batch, true);
  kernels_->linear_backward_weight(storage_.gradient(parts_.weight), storage_.gradient(parts_.bias),
                                   images_.data(), logits_.data(), batch.batch,
                                   image_numbers(config_), config_.vocabulary);
  return mean_loss;
}

float Linear::loss(const Batch& batch) { return forward(batch, false); }

float Linear::forward(const Batch& batch, bool gradients) {
  check_image_batch(config_, batch, max_batch_);
  kernels_->round_parameters(storage_.parameters());
  images_.copy_in(batch.images);
  targets_.copy_in(batch.targets);
  kernels_->linear_forward(logits_.data(), images_.data(), storage_.value(parts_.weight),
                           storage_.value(parts_.bias), nullptr, batch.batch,
                           image_numbers(config_), config_.vocabulary);
  const ClassScore score = score_classes(*kernels_, logits_.data(), losses_.data(), targets_.data(),
                                         batch.targets, config_.vocabulary, gradients);
  accuracy_ = score.accuracy;
  return score.loss;
}

std::int64_t Linear::activation_bytes_of(const config::Model& config, std::int64_t batch) {
  return static_cast<std::int64_t>(sizeof(float)) * batch *
         (config.vocabulary + image_numbers(config) + 2);
}

}  // namespace archipelago::model
