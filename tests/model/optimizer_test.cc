#include "model/optimizer.h"

#include <cmath>
#include <limits>

#include "model_test.h"

namespace archipelago::model {
namespace {

std::vector<TensorInfo> two_tensors() {
  return {{"a.weight", {2, 1}, 0, 2, TensorRole::matrix},
          {"a.bias", {2}, 2, 2, TensorRole::vector}};
}

const auto kKernels = kernels::make_cpu_kernels(1);

TEST(AdamW, ClipsByTheGlobalNormAndDecaysMatricesOnly) {
  config::Train settings;
  settings.clip = 1;
  settings.weight_decay = 0.5;
  AdamW optimizer(two_tensors(), settings, *kKernels);
  std::vector<float> parameters = {1, 1, 1, 1};
  std::vector<float> gradients = {6, 0, 8, 0};
  EXPECT_NEAR(optimizer.step(parameters, gradients, 0.1), 10, 1e-6);
  // The first step goes by the rate along the sign of each gradient, whatever its size; the decay
  // of 0.1 * 0.5 comes on top.
  EXPECT_NEAR(parameters[0], 1 - 0.05 - 0.1, 1e-5);
  EXPECT_NEAR(parameters[1], 1 - 0.05, 1e-6);
  EXPECT_NEAR(parameters[2], 1 - 0.1, 1e-5);
  EXPECT_EQ(parameters[3], 1);
  EXPECT_NEAR(optimizer.first_moment()[0], 0.1 * 0.6, 1e-6);
  EXPECT_NEAR(optimizer.second_moment()[2], 0.05 * 0.64, 1e-6);
  EXPECT_EQ(gradients, std::vector<float>(4, 0));
  EXPECT_EQ(optimizer.steps(), 1);
}

TEST(AdamW, DecaysByRoleHoweverTensorsFollowOneAnother) {
  using enum TensorRole;
  std::vector<TensorInfo> tensors;
  const std::vector<TensorRole> roles = {vector, vector, matrix, table, vector, matrix};
  for (const TensorRole role : roles) {
    const auto offset = static_cast<std::int64_t>(2 * tensors.size());
    tensors.push_back({"t", {2}, offset, 2, role});
  }
  config::Train settings;
  settings.weight_decay = 0.5;
  AdamW optimizer(tensors, settings, *kKernels);
  std::vector<float> parameters(12, 1);
  std::vector<float> gradients(12, 0);
  optimizer.step(parameters, gradients, 0.1);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_NEAR(parameters[i], roles[i / 2] == vector ? 1 : 0.95, 1e-6) << i;
  }
}

TEST(AdamW, DoesNotClipShortGradientsNorWithoutALimit) {
  for (const double clip : {100.0, 0.0}) {
    config::Train settings;
    settings.clip = clip;
    AdamW optimizer(two_tensors(), settings, *kKernels);
    std::vector<float> parameters(4, 0.0F);
    std::vector<float> gradients = {6, 0, 8, 0};
    optimizer.step(parameters, gradients, 0.1);
    EXPECT_NEAR(optimizer.first_moment()[0], 0.6, 1e-6);
  }
}

TEST(AdamW, NonFiniteGradientsChangeNothing) {
  AdamW optimizer(two_tensors(), config::Train{}, *kKernels);
  std::vector<float> parameters = {1, 2, 3, 4};
  std::vector<float> gradients = {1, std::numeric_limits<float>::quiet_NaN(), 1, 1};
  EXPECT_FALSE(std::isfinite(optimizer.step(parameters, gradients, 0.1)));
  EXPECT_EQ(parameters, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(gradients, std::vector<float>(4, 0));
  EXPECT_EQ(optimizer.steps(), 0);
  EXPECT_EQ(optimizer.first_moment()[0], 0);
}

TEST(Optimizer, PartsOfABatchCountAsTheirMean) {
  for (const char* const name : {"adamw", "sgd"}) {
    config::Train settings;
    settings.optimizer = name;
    settings.clip = 1;
    const auto whole = make_optimizer(two_tensors(), settings, *kKernels);
    settings.accumulate = 4;
    const auto parts = make_optimizer(two_tensors(), settings, *kKernels);
    std::vector<float> a = {1, 2, 3, 4};
    std::vector<float> b = a;
    std::vector<float> mean = {6, 0, 8, 0};
    std::vector<float> sum = {24, 0, 32, 0};
    EXPECT_NEAR(whole->step(a, mean, 0.1), 10, 1e-6);
    EXPECT_NEAR(parts->step(b, sum, 0.1), 10, 1e-6);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << name;
  }
}

TEST(Sgd, ClipsDecaysMatricesOnlyAndKeepsOneMoment) {
  config::Train settings;
  settings.optimizer = "sgd";
  settings.clip = 1;
  settings.weight_decay = 0.5;
  settings.momentum = 0.5;
  const auto optimizer = make_optimizer(two_tensors(), settings, *kKernels);
  EXPECT_TRUE(optimizer->second_moment().empty());
  std::vector<float> parameters = {1, 1, 1, 1};
  std::vector<float> gradients = {6, 0, 8, 0};
  optimizer->step(parameters, gradients, 0.1);
  EXPECT_NEAR(parameters[0], 1 - 0.05 - 0.06, 1e-6);
  EXPECT_NEAR(parameters[1], 1 - 0.05, 1e-6);
  EXPECT_NEAR(parameters[2], 1 - 0.08, 1e-6);
  gradients = {0, 0, 0, 0};
  optimizer->step(parameters, gradients, 0.1);
  EXPECT_NEAR(parameters[2], 1 - 0.08 - 0.04, 1e-6);
  EXPECT_TRUE(optimizer->fits(std::vector<float>(4), {}));
  EXPECT_FALSE(optimizer->fits(std::vector<float>(4), std::vector<float>(4)));
}

TEST(AdamW, RestoredStateContinuesTheSame) {
  std::vector<float> parameters = {1, 2, 3, 4};
  AdamW optimizer(two_tensors(), config::Train{}, *kKernels);
  std::vector<float> gradients = {1, 2, 3, 4};
  optimizer.step(parameters, gradients, 0.1);
  AdamW restored(two_tensors(), config::Train{}, *kKernels);
  const auto first = optimizer.first_moment();
  const auto second = optimizer.second_moment();
  restored.restore({first.begin(), first.end()}, {second.begin(), second.end()}, optimizer.steps());
  std::vector<float> copy = parameters;
  gradients = {4, 3, 2, 1};
  optimizer.step(parameters, gradients, 0.1);
  gradients = {4, 3, 2, 1};
  restored.step(copy, gradients, 0.1);
  EXPECT_EQ(parameters, copy);
}

config::Train cosine() {
  config::Train settings;
  settings.lr = 2;
  settings.min_lr = 0.1;
  settings.warmup = 4;
  settings.steps = 104;
  return settings;
}

TEST(LearningRate, WarmsUpAgainWhereMomentsAreNew) {
  const config::Train settings = cosine();
  for (const int step : {0, 1, 3, 4, 54, 200}) {
    EXPECT_EQ(learning_rate(settings, step, step), learning_rate(settings, step));
  }
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 54, 1), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 54, 2), learning_rate(settings, 54));
  EXPECT_DOUBLE_EQ(learning_rate(settings, 104, 0), 0.2);
}

TEST(LearningRate, WarmsUpFallsAsACosineAndStays) {
  config::Train settings = cosine();
  EXPECT_DOUBLE_EQ(learning_rate(settings, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 3), 2);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 4), 2);
  EXPECT_NEAR(learning_rate(settings, 54), 1.1, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 104), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100000), 0.2);
  settings.schedule = "linear";
  EXPECT_DOUBLE_EQ(learning_rate(settings, 1), 1);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 4), 2);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 29), 1.55);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 1000), 0.2);
  settings.schedule = "constant";
  EXPECT_DOUBLE_EQ(learning_rate(settings, 1), 1);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 1000), 2);
  settings.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 0), 2);
}

}  // namespace
}  // namespace archipelago::model
