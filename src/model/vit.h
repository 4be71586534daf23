#pragma once

#include <memory>

#include "model/network.h"
#include "model/trunk.h"

namespace archipelago::model {

// Patches that an image is cut into, the positions of the network.
std::int64_t patch_count(const config::Model& config);

// The tensors and activations of an image classifier, no memory yet.
struct VitPlan {
  explicit VitPlan(const config::Model& config, Plan empty = Plan());

  Plan plan;
  Parameter patch_weight, patch_bias, position_table;
  Trunk trunk;
  Parameter head_weight, head_bias;
  Activation patches;
};

// Vision transformer (Dosovitskiy et al. 2021) with the mean over positions in place of a class
// token (Beyer, Zhai, Kolesnikov 2022): patches, position table, the decoder's blocks without the
// causal mask, a linear head over `vocabulary` classes.
class Vit final : public Network<VitPlan> {
 public:
  Vit(const config::Model& config, std::int64_t max_batch,
      std::shared_ptr<kernels::Kernels> kernels);

  float forward_backward(const Batch& batch) override;
  float loss(const Batch& batch) override;
  std::optional<double> accuracy() const override { return accuracy_; }
  static std::int64_t activation_bytes_of(const config::Model& config, std::int64_t batch);
  std::int64_t activation_bytes(std::int64_t batch) const override {
    return activation_bytes_of(config_, batch);
  }

 private:
  // Up to the logits.
  void forward(const Batch& batch);
  // Mean loss of the logits, which with `gradients` become their gradients.
  float cross_entropy(const Batch& batch, bool gradients);
  void backward(const Batch& batch);

  std::int64_t positions_;
  std::int64_t max_batch_;
  kernels::Buffer pooled_;  // the mean over positions, then its gradient
  kernels::Buffer logits_;
  kernels::Buffer losses_;
  kernels::Buffer images_;
  kernels::IndexBuffer targets_;
  std::optional<double> accuracy_;
};

}  // namespace archipelago::model
