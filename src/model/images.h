#pragma once

#include "kernels/kernels.h"
#include "model/model.h"

namespace archipelago::model {

// What image classifiers have in common.

// Numbers of one image.
std::int64_t image_numbers(const config::Model& config);

// Throws Error where `batch` is no batch of images and classes that fits a model made for
// `max_batch` images.
void check_image_batch(const config::Model& config, const Batch& batch, std::int64_t max_batch);

struct ClassScore {
  float loss;       // mean over the targets that count, nats
  double accuracy;  // share of these whose class has the largest logit
};

// Of logits[batch, classes], which with `gradients` become the gradients of the mean loss; `losses`
// is room for one number an image, `device_targets` the targets again in the kernels' memory.
ClassScore score_classes(kernels::Kernels& kernels, float* logits, float* losses,
                         const std::int32_t* device_targets, std::span<const std::int32_t> targets,
                         std::int64_t classes, bool gradients);

}  // namespace archipelago::model
