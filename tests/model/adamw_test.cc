#include <cmath>
#include <limits>

#include "model_test.h"

namespace archipelago::model {
namespace {

std::vector<TensorInfo> two_tensors() {
  return {{"a.weight", {2, 1}, 0, 2, TensorRole::matrix},
          {"a.bias", {2}, 2, 2, TensorRole::vector}};
}

TEST(AdamW, ClipsByTheGlobalNormAndDecaysMatricesOnly) {
  config::Train settings;
  settings.clip = 1;
  settings.weight_decay = 0.5;
  AdamW optimizer(two_tensors(), settings);
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

TEST(AdamW, DoesNotClipShortGradientsNorWithoutALimit) {
  for (const double clip : {100.0, 0.0}) {
    config::Train settings;
    settings.clip = clip;
    AdamW optimizer(two_tensors(), settings);
    std::vector<float> parameters(4, 0.0F);
    std::vector<float> gradients = {6, 0, 8, 0};
    optimizer.step(parameters, gradients, 0.1);
    EXPECT_NEAR(optimizer.first_moment()[0], 0.6, 1e-6);
  }
}

TEST(AdamW, NonFiniteGradientsChangeNothing) {
  AdamW optimizer(two_tensors(), config::Train{});
  std::vector<float> parameters = {1, 2, 3, 4};
  std::vector<float> gradients = {1, std::numeric_limits<float>::quiet_NaN(), 1, 1};
  EXPECT_FALSE(std::isfinite(optimizer.step(parameters, gradients, 0.1)));
  EXPECT_EQ(parameters, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(gradients, std::vector<float>(4, 0));
  EXPECT_EQ(optimizer.steps(), 0);
  EXPECT_EQ(optimizer.first_moment()[0], 0);
}

TEST(AdamW, RestoredStateContinuesTheSame) {
  std::vector<float> parameters = {1, 2, 3, 4};
  AdamW optimizer(two_tensors(), config::Train{});
  std::vector<float> gradients = {1, 2, 3, 4};
  optimizer.step(parameters, gradients, 0.1);
  AdamW restored(two_tensors(), config::Train{});
  std::copy_n(optimizer.first_moment().begin(), 4, restored.first_moment().begin());
  std::copy_n(optimizer.second_moment().begin(), 4, restored.second_moment().begin());
  restored.set_steps(optimizer.steps());
  std::vector<float> copy = parameters;
  gradients = {4, 3, 2, 1};
  optimizer.step(parameters, gradients, 0.1);
  gradients = {4, 3, 2, 1};
  restored.step(copy, gradients, 0.1);
  EXPECT_EQ(parameters, copy);
}

TEST(LearningRate, WarmsUpFallsAsACosineAndStays) {
  config::Train settings;
  settings.lr = 2;
  settings.min_lr = 0.1;
  settings.warmup = 4;
  settings.steps = 104;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 3), 2);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 4), 2);
  EXPECT_NEAR(learning_rate(settings, 54), 1.1, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 104), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100000), 0.2);
  settings.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 0), 2);
}

}  // namespace
}  // namespace archipelago::model
