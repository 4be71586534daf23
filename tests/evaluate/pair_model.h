#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "model/model.h"

namespace archipelago::evaluate {

// A stand-in whose logits for the token after t are known: logit(t, v) = ((7 t + 3 v) mod 5) / 2.
class PairModel final : public model::Model {
 public:
  static constexpr int kVocabulary = 10;

  PairModel(std::int64_t context, std::int64_t max_batch)
      : context_(context), max_batch_(max_batch) {}

  static double logit(int token, int next) { return ((7 * token + 3 * next) % 5) / 2.0; }
  static double loss_of(int token, int next) {
    double sum = 0;
    for (int v = 0; v < kVocabulary; ++v) sum += std::exp(logit(token, v));
    return std::log(sum) - logit(token, next);
  }

  std::span<const model::TensorInfo> tensors() const override { return {}; }
  kernels::Kernels& kernels() override { return *kernels_; }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  void initialize(std::uint64_t) override {}
  float forward_backward(const model::Batch&) override { return 0; }
  std::int64_t activation_bytes(std::int64_t) const override { return 0; }

  float loss(const model::Batch& batch) override {
    EXPECT_LE(batch.batch, max_batch_);
    EXPECT_EQ(batch.inputs.size(), static_cast<std::size_t>(batch.batch * context_));
    EXPECT_EQ(batch.targets.size(), batch.inputs.size());
    double sum = 0;
    int counted = 0;
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      if (batch.targets[i] < 0) continue;
      sum += loss_of(batch.inputs[i], batch.targets[i]);
      ++counted;
    }
    return static_cast<float>(sum / counted);
  }

  void next_logits(std::span<const std::int32_t> tokens, std::span<float> logits) override {
    EXPECT_GE(tokens.size(), 1u);
    EXPECT_LE(tokens.size(), static_cast<std::size_t>(context_));
    for (int v = 0; v < kVocabulary; ++v) {
      logits[static_cast<std::size_t>(v)] = static_cast<float>(logit(tokens.back(), v));
    }
  }

 private:
  std::unique_ptr<kernels::Kernels> kernels_ = kernels::make_cpu_kernels(1);
  std::int64_t context_;
  std::int64_t max_batch_;
};

}  // namespace archipelago::evaluate
