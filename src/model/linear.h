#pragma once

#include <memory>
#include <optional>

#include "model/network.h"

namespace archipelago::model {

// The tensors of a linear classifier, no memory yet.
struct LinearPlan {
  explicit LinearPlan(const config::Model& config, Plan empty = Plan());

  Plan plan;
  Parameter weight, bias;
};

// Softmax regression on the pixels: what every other image model has to beat.
class Linear final : public Network<LinearPlan> {
 public:
  Linear(const config::Model& config, std::int64_t max_batch,
         std::shared_ptr<kernels::Kernels> kernels);

  float forward_backward(const Batch& batch) override;
  float loss(const Batch& batch) override;
  std::optional<double> accuracy() const override { return accuracy_; }
  static std::int64_t activation_bytes_of(const config::Model& config, std::int64_t batch);
  std::int64_t activation_bytes(std::int64_t batch) const override {
    return activation_bytes_of(config_, batch);
  }

 private:
  // Mean loss; with `gradients` the logits become theirs.
  float forward(const Batch& batch, bool gradients);

  std::int64_t max_batch_;
  kernels::Buffer logits_;
  kernels::Buffer losses_;
  kernels::Buffer images_;
  kernels::IndexBuffer targets_;
  std::optional<double> accuracy_;
};

}  // namespace archipelago::model
