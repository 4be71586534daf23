#include <algorithm>
#include <cmath>
#include <functional>

#include "model/optimizer.h"
#include "model/size.h"
#include "model_test.h"
#include "reference_model.h"

namespace archipelago::model {
namespace {

// What every kind of network must do.
class NetworksTest : public testing::TestWithParam<const char*> {
 protected:
  config::Model config_ = small_config(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Kinds, NetworksTest, testing::Values("gpt", "moe", "vit", "linear"));

TEST_P(NetworksTest, LossAndEveryTensorsGradientAgainstDoublePrecision) {
  config::Model config = config_;
  config.balance_loss = 0.5;
  config.router_z_loss = 0.1;
  for (const int threads : {1, 2}) {
    const auto model = make_model(config, 3, threads);
    scatter_parameters(*model);
    Example example(config, 3);
    example.targets[1] = -1;
    const Batch batch = example.batch(3);
    const reference::Array parameters = reference::to_double(model->parameters());
    std::fill(model->gradients().begin(), model->gradients().end(), 0.5F);

    const double loss = reference::model_losses(config, model->tensors(), parameters, batch).loss;
    EXPECT_NEAR(model->loss(batch), loss, 1e-5 * loss);
    EXPECT_NEAR(model->forward_backward(batch), loss, 1e-5 * loss);

    Random random(5);
    for (const TensorInfo& tensor : model->tensors()) {
      const auto gradient = model->gradients().subspan(tensor.offset, tensor.size);
      double scale = 0;
      for (const float g : gradient) {
        scale = std::max(scale, std::abs(static_cast<double>(g) - 0.5));
      }
      for (int sample = 0; sample < 4; ++sample) {
        const auto i =
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(tensor.size)));
        const auto along = [&](const reference::Array& value) {
          reference::Array moved = parameters;
          moved[tensor.offset + i] = value[0];
          return reference::model_losses(config, model->tensors(), moved, batch).objective;
        };
        const double expected =
            reference::numeric_gradient(along, {parameters[tensor.offset + i]})[0];
        EXPECT_NEAR(gradient[i] - 0.5, expected, 1e-4 * scale + 1e-6) << tensor.name << " " << i;
      }
    }
  }
}

TEST_P(NetworksTest, RecomputationChangesNoBitAndNeedsLessMemory) {
  config::Model config = config_;
  config.layers = 4;
  std::vector<std::vector<float>> gradients;
  std::vector<std::int64_t> bytes;
  for (const bool recompute : {false, true}) {
    config.recompute = recompute;
    const auto model = make_model(config, 3, 1);
    scatter_parameters(*model);
    const Example example(config, 3);
    model->forward_backward(example.batch(3));
    gradients.emplace_back(model->gradients().begin(), model->gradients().end());
    bytes.push_back(model->activation_bytes(3));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  if (config.kind == "linear") return;  // keeps nothing
  EXPECT_LT(bytes[1], 0.6 * static_cast<double>(bytes[0]));
}

TEST_P(NetworksTest, GradientsSaidToBeReadyAreFinal) {
  const auto model = make_model(config_, 2, 1);
  scatter_parameters(*model);
  const Example example(config_, 2);
  std::vector<std::int64_t> places;
  std::vector<std::vector<float>> tails;
  model->watch_gradients([&](std::int64_t from) {
    places.push_back(from);
    const auto tail = model->gradients().subspan(static_cast<std::size_t>(from));
    tails.emplace_back(tail.begin(), tail.end());
  });
  model->forward_backward(example.batch(2));
  if (config_.kind == "linear") return;  // has nothing but what comes last
  // The final norm and both halves of both blocks; a tensor begins at each place.
  ASSERT_EQ(places.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(places, std::greater<>()));
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(std::ranges::count(model->tensors(), places[i], &TensorInfo::offset), 1);
    const auto tail = model->gradients().subspan(static_cast<std::size_t>(places[i]));
    EXPECT_EQ(tails[i], std::vector<float>(tail.begin(), tail.end())) << places[i];
  }
  const auto first_block = std::ranges::find_if(
      model->tensors(), [](const TensorInfo& tensor) { return tensor.name.starts_with("h.0."); });
  EXPECT_EQ(places.back(), first_block->offset);
}

TEST_P(NetworksTest, LearnsOneBatchByHeart) {
  const config::Model& config = config_;
  const auto model = make_model(config, 2, 1);
  model->initialize(1);
  const Example example(config, 2);
  config::Train settings;
  settings.weight_decay = 0;
  AdamW optimizer(model->tensors(), settings, model->kernels());
  EXPECT_NEAR(model->loss(example.batch(2)), std::log(29.0), 0.5);
  for (int step = 0; step < 300; ++step) {
    model->forward_backward(example.batch(2));
    optimizer.step(model->parameters(), model->gradients(), 3e-3);
  }
  EXPECT_LT(model->loss(example.batch(2)), 0.05);
}

TEST(Size, CountsParametersAndOperationsByHand) {
  config::Model c = small_config("moe");
  c.experts_per_token = 2;
  const std::int64_t C = 21, T = 11, V = 29, L = 2, E = 5, H = 13;
  const std::int64_t expert = C * H + H + H * C + C;
  const std::int64_t dense =
      V * C + T * C + L * (2 * C + C * 3 * C + 3 * C + C * C + C + 2 * C + C * E) + 2 * C;
  const Size size = size_of(c);
  EXPECT_EQ(size.parameters, dense + L * E * expert);
  EXPECT_EQ(size.active, dense + L * 2 * expert);
  const std::int64_t weights = V * C + L * (4 * C * C + C * E + 2 * 2 * C * H);
  EXPECT_DOUBLE_EQ(size.flops, 6.0 * static_cast<double>(weights + L * C * (T + 1)));
}

TEST(Size, NamedSizesHaveGpt2sParameters) {
  config::Model c;
  c.layers = 12;
  c.width = 768;
  c.heads = 12;
  c.context = 1024;
  c.vocabulary = 50257;
  EXPECT_EQ(size_of(c).parameters, 124'439'808);  // as Hugging Face counts gpt2
  c.layers = 48;
  c.width = 1600;
  c.heads = 25;
  EXPECT_EQ(size_of(c).parameters, 1'557'611'200);  // gpt2-xl
}

TEST_P(NetworksTest, SizeIsKnownWithoutTheModel) {
  const auto model = make_model(config_, 3, 1);
  EXPECT_EQ(size_of(config_).parameters, static_cast<std::int64_t>(model->parameters().size()));
  EXPECT_EQ(activation_bytes(config_, 3), model->activation_bytes(3));
}

TEST(Accuracy, IsTheShareOfTargetsThatCountWhoseLogitIsTheLargest) {
  config::Model config = small_config("linear");
  config.image = 1;
  config.image_channels = 2;
  config.vocabulary = 3;
  const auto model = make_model(config, 5, 1);
  // Class 0 likes the first number, class 1 the second, class 2 neither.
  const std::vector<float> weights = {1, 0, 0, 0, 1, 0};
  std::ranges::copy(weights, model->parameters().begin());
  const std::vector<float> images = {9, 1, 1, 9, 5, -1, -2, -2, 9, 1};
  const std::vector<std::int32_t> targets = {0, 1, 1, 2, -1};
  EXPECT_EQ(model->accuracy(), std::nullopt);
  model->loss({5, {}, targets, images});
  EXPECT_EQ(model->accuracy(), 0.75);
  EXPECT_EQ(make_model(small_config(), 1, 1)->accuracy(), std::nullopt);
}

TEST_P(NetworksTest, SameThreadsSameBits) {
  const config::Model& config = config_;
  for (const int threads : {1, 2}) {
    std::vector<std::vector<float>> runs;
    for (int run = 0; run < 2; ++run) {
      const auto model = make_model(config, 5, threads);
      model->initialize(9);
      const Example example(config, 5);
      AdamW optimizer(model->tensors(), config::Train{}, model->kernels());
      for (int step = 0; step < 5; ++step) {
        model->forward_backward(example.batch(5));
        optimizer.step(model->parameters(), model->gradients(), 1e-2);
      }
      runs.emplace_back(model->parameters().begin(), model->parameters().end());
    }
    EXPECT_EQ(runs[0], runs[1]) << threads << " threads";
  }
}

}  // namespace
}  // namespace archipelago::model
