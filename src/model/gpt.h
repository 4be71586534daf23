#pragma once

#include <memory>
#include <vector>

#include "model/network.h"
#include "model/trunk.h"

namespace archipelago::model {

// The tensors and activations of a decoder, no memory yet.
struct GptPlan {
  explicit GptPlan(const config::Model& config, Plan empty = Plan(),
                   ExpertExchange* exchange = nullptr);

  Plan plan;
  Parameter token_table, position_table;
  Trunk trunk;
};

// GPT-2 (Radford et al. 2019): token and position embeddings, pre-norm blocks, a head that shares
// the token table.
class Gpt final : public Network<GptPlan> {
 public:
  Gpt(const config::Model& config, std::int64_t max_batch,
      std::shared_ptr<kernels::Kernels> kernels, ExpertExchange* exchange);

  float forward_backward(const Batch& batch) override;
  float loss(const Batch& batch) override;
  void next_logits(std::span<const std::int32_t> tokens, std::span<float> logits) override;
  static std::int64_t activation_bytes_of(const config::Model& config, std::int64_t batch,
                                          std::int64_t rows_at_once);
  std::int64_t activation_bytes(std::int64_t batch) const override {
    return activation_bytes_of(config_, batch, kernels_->rows_at_once());
  }

 private:
  void check(const Batch& batch) const;
  // body(slice, whether it is the last) for slices of the batch that fit the activations, in order.
  template <class Body>
  void for_slices(const Batch& batch, const Body& body) const;
  // Up to the final norm, whose output it returns.
  float* forward(const Batch& batch);
  // The targets' losses from `normed`, the final norm's output; with `gradient_scale` != 0 it is
  // replaced by that many times their gradient. The logits exist for head_rows_ rows at a time.
  void head(const Batch& batch, float* normed, float gradient_scale);
  // Of those that head() has left.
  double sum_of_losses(const Batch& batch);
  std::int64_t rows(const Batch& batch) const { return batch.batch * config_.context; }

  std::int64_t max_batch_;
  std::int64_t head_rows_;
  kernels::Buffer logits_;
  kernels::Buffer losses_;
  std::vector<float> host_losses_;
  kernels::IndexBuffer inputs_;
  kernels::IndexBuffer targets_;
};

}  // namespace archipelago::model
