#include <cmath>
#include <map>

#include "kernels/kernels.h"
#include "model/optimizer.h"
#include "model_test.h"

// The whole of each network through kernels/cuda has the results of kernels/cpu: on a GPU, and on
// the emulated one, where the address sanitizer sees what the host may not touch.

namespace archipelago::model {
namespace {

std::vector<float> on_host(kernels::Kernels& kernels, std::span<const float> values) {
  std::vector<float> result(values.size());
  kernels.copy_out(result.data(), values.data(), static_cast<std::int64_t>(values.size_bytes()));
  return result;
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

// The largest distance as a share of the norm.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i] - b[i])));
  }
  return largest / norm(b);
}

struct Steps {
  std::vector<float> losses;
  std::vector<float> gradients;   // of the first step
  std::vector<float> parameters;  // after the last
};

Steps train(const config::Model& config, const std::shared_ptr<kernels::Kernels>& kernels) {
  constexpr std::int64_t kBatch = 3;
  const auto model = make_model(config, kBatch, kernels);
  model->initialize(5);
  AdamW optimizer(model->tensors(), config::Train{}, *kernels);
  const Example example(config, kBatch);
  Steps steps;
  for (int step = 0; step < 2; ++step) {
    steps.losses.push_back(model->forward_backward(example.batch(kBatch)));
    if (step == 0) steps.gradients = on_host(*kernels, model->gradients());
    optimizer.step(model->parameters(), model->gradients(), 1e-3);
  }
  steps.losses.push_back(model->loss(example.batch(kBatch)));
  steps.parameters = on_host(*kernels, model->parameters());
  return steps;
}

void skip_without_gpu() {
  if (kernels::cuda_devices() == 0) GTEST_SKIP() << kernels::why_no_cuda();
}

std::shared_ptr<kernels::Kernels> gpu(kernels::Precision precision, bool deterministic = false) {
  return kernels::make_cuda_kernels({.kind = kernels::Device::Kind::cuda,
                                     .precision = precision,
                                     .deterministic = deterministic});
}

class DeviceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { skip_without_gpu(); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, DeviceTest, testing::Values("gpt", "moe", "vit", "linear"));

TEST_P(DeviceTest, TrainsAsTheProcessorDoes) {
  const config::Model config = small_config(GetParam());
  const Steps here = train(config, kernels::make_cpu_kernels(1));
  const Steps there = train(config, gpu(kernels::Precision::f32));
  for (std::size_t i = 0; i < here.losses.size(); ++i) {
    EXPECT_NEAR(there.losses[i], here.losses[i], 1e-5) << i;
  }
  EXPECT_LT(distance(there.gradients, here.gradients), 1e-5);
  EXPECT_LT(distance(there.parameters, here.parameters), 1e-4);
}

// Products over operands of 8 bits, and what a layer keeps in as many: with heads that cuDNN's
// attention has, and that it has not.
TEST_P(DeviceTest, TrainsInBf16) {
  for (const int width : {24, 21}) {
    config::Model config = small_config(GetParam());
    config.width = width;
    const Steps here = train(config, kernels::make_cpu_kernels(1));
    const Steps there = train(config, gpu(kernels::Precision::bf16));
    for (std::size_t i = 0; i < here.losses.size(); ++i) {
      EXPECT_NEAR(there.losses[i], here.losses[i], 2e-2) << width << " step " << i;
    }
    EXPECT_LT(distance(there.gradients, here.gradients), 2e-2) << width;
  }
}

// Runs of one program on one GPU.
TEST_P(DeviceTest, DeterministicRunsHaveTheSameBits) {
  config::Model config = small_config(GetParam());
  config.width = 24;
  const Steps first = train(config, gpu(kernels::Precision::bf16, true));
  const Steps second = train(config, gpu(kernels::Precision::bf16, true));
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.parameters, second.parameters);
}

class DeviceTextTest : public testing::Test {
 protected:
  void SetUp() override { skip_without_gpu(); }
};

TEST_F(DeviceTextTest, NextLogitsAreTheProcessors) {
  const config::Model config = small_config();
  const auto here = make_model(config, 1, 1);
  const auto there = make_model(config, 1, gpu(kernels::Precision::f32));
  here->initialize(5);
  there->initialize(5);
  const std::vector<std::int32_t> tokens = {3, 1, 28};
  std::vector<float> expected(29), actual(29);
  here->next_logits(tokens, expected);
  there->next_logits(tokens, actual);
  EXPECT_LT(distance(actual, expected), 1e-5);
}

TEST_F(DeviceTextTest, MomentsComeBackFromACheckpoint) {
  const auto kernels = gpu(kernels::Precision::f32);
  const std::vector<TensorInfo> tensors = {{"a.weight", {3}, 0, 3, TensorRole::matrix}};
  AdamW optimizer(tensors, config::Train{}, *kernels);
  optimizer.restore({1, 2, 3}, {4, 5, 6}, 7);
  EXPECT_EQ(on_host(*kernels, optimizer.first_moment()), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(on_host(*kernels, optimizer.second_moment()), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(optimizer.steps(), 7);
  optimizer.reset();
  EXPECT_EQ(on_host(*kernels, optimizer.second_moment()), std::vector<float>(3, 0));
}

}  // namespace
}  // namespace archipelago::model
