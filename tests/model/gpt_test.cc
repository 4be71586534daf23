#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model_test.h"
#include "reference_gpt.h"

namespace archipelago::model {
namespace {

// Larger than GPT-2's, so that no gradient is too small to check; norms and biases too.
void scatter_parameters(Model& model) {
  Random random(3);
  for (const TensorInfo& tensor : model.tensors()) {
    const bool norm = tensor.role == TensorRole::vector && tensor.name.ends_with(".weight");
    for (float& value : model.parameters().subspan(tensor.offset, tensor.size)) {
      value = static_cast<float>((norm ? 1.0 : 0.0) + 0.3 * random.normal());
    }
  }
}

reference::Array to_double(std::span<const float> values) { return {values.begin(), values.end()}; }

class DecoderTest : public testing::TestWithParam<const char*> {
 protected:
  DecoderTest() { config_.kind = GetParam(); }
  config::Model config_ = small_config();
};
INSTANTIATE_TEST_SUITE_P(Kinds, DecoderTest, testing::Values("gpt", "moe"));

TEST_P(DecoderTest, LossAndEveryTensorsGradientAgainstDoublePrecision) {
  config::Model config = config_;
  config.experts = 5;
  config.balance_loss = 0.5;
  config.router_z_loss = 0.1;
  for (const int threads : {1, 2}) {
    const auto model = make_model(config, 3, threads);
    scatter_parameters(*model);
    Tokens tokens(config, 3);
    tokens.targets[4] = -1;
    const Batch batch = tokens.batch(3);
    const reference::Array parameters = to_double(model->parameters());
    std::fill(model->gradients().begin(), model->gradients().end(), 0.5F);

    const double loss = reference::gpt_losses(config, model->tensors(), parameters, batch).loss;
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
          return reference::gpt_losses(config, model->tensors(), moved, batch).objective;
        };
        const double expected =
            reference::numeric_gradient(along, {parameters[tensor.offset + i]})[0];
        EXPECT_NEAR(gradient[i] - 0.5, expected, 1e-4 * scale + 1e-6) << tensor.name << " " << i;
      }
    }
  }
}

// The logits exist for some rows at a time: a vocabulary so large that the head takes several
// turns.
TEST(Gpt, HeadInSeveralTurnsMatchesDoublePrecision) {
  config::Model config = small_config();
  config.layers = 1;
  config.width = 8;
  config.heads = 1;
  config.context = 100;
  config.vocabulary = 9001;
  const auto model = make_model(config, 3, 1);
  scatter_parameters(*model);
  const Tokens tokens(config, 3);
  const Batch batch = tokens.batch(3);
  const reference::Array parameters = to_double(model->parameters());
  const double loss = reference::gpt_losses(config, model->tensors(), parameters, batch).loss;
  EXPECT_NEAR(model->forward_backward(batch), loss, 1e-5 * loss);

  // Along the gradient the loss rises by the gradient's squared norm.
  const auto along = [&](const reference::Array& step) {
    reference::Array moved = parameters;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] += step[0] * static_cast<double>(model->gradients()[i]);
    }
    return reference::gpt_losses(config, model->tensors(), moved, batch).loss;
  };
  const reference::Array gradient = to_double(model->gradients());
  const double squared = reference::dot(gradient, gradient);
  EXPECT_NEAR(reference::numeric_gradient(along, {0.0})[0], squared, 1e-4 * squared);
}

TEST_P(DecoderTest, LearnsOneBatchByHeart) {
  const config::Model& config = config_;
  const auto model = make_model(config, 2, 1);
  model->initialize(1);
  const Tokens tokens(config, 2);
  config::Train settings;
  settings.weight_decay = 0;
  AdamW optimizer(model->tensors(), settings);
  EXPECT_NEAR(model->loss(tokens.batch(2)), std::log(29.0), 0.1);
  for (int step = 0; step < 300; ++step) {
    model->forward_backward(tokens.batch(2));
    optimizer.step(model->parameters(), model->gradients(), 3e-3);
  }
  EXPECT_LT(model->loss(tokens.batch(2)), 0.05);
}

TEST_P(DecoderTest, SameThreadsSameBits) {
  const config::Model& config = config_;
  for (const int threads : {1, 2}) {
    std::vector<std::vector<float>> runs;
    for (int run = 0; run < 2; ++run) {
      const auto model = make_model(config, 5, threads);
      model->initialize(9);
      const Tokens tokens(config, 5);
      AdamW optimizer(model->tensors(), config::Train{});
      for (int step = 0; step < 5; ++step) {
        model->forward_backward(tokens.batch(5));
        optimizer.step(model->parameters(), model->gradients(), 1e-2);
      }
      runs.emplace_back(model->parameters().begin(), model->parameters().end());
    }
    EXPECT_EQ(runs[0], runs[1]) << threads << " threads";
  }
}

TEST(Gpt, SmallerBatchThanMadeForGivesTheSame) {
  const config::Model config = small_config();
  const Tokens tokens(config, 2);
  const auto roomy = make_model(config, 7, 1);
  const auto tight = make_model(config, 2, 1);
  roomy->initialize(1);
  tight->initialize(1);
  EXPECT_EQ(roomy->forward_backward(tokens.batch(2)), tight->forward_backward(tokens.batch(2)));
  EXPECT_TRUE(
      std::equal(roomy->gradients().begin(), roomy->gradients().end(), tight->gradients().begin()));
}

TEST(Gpt, NoTargetsNoLossNoGradient) {
  const config::Model config = small_config();
  const auto model = make_model(config, 1, 1);
  model->initialize(1);
  Tokens tokens(config, 1);
  std::fill(tokens.targets.begin(), tokens.targets.end(), -1);
  EXPECT_EQ(model->forward_backward(tokens.batch(1)), 0);
  for (const float g : model->gradients()) EXPECT_EQ(g, 0);
}

TEST(Gpt, NextLogitsAreThoseThatTheLossComesFrom) {
  const config::Model config = small_config();
  const auto model = make_model(config, 1, 1);
  model->initialize(1);
  scatter_parameters(*model);
  Tokens tokens(config, 1);
  std::vector<float> logits(static_cast<std::size_t>(config.vocabulary));
  for (const std::size_t length : {1u, 5u, 11u}) {
    model->next_logits(std::span(tokens.inputs).first(length), logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    for (const std::int32_t target : {0, 13, 28}) {
      std::fill(tokens.targets.begin(), tokens.targets.end(), -1);
      tokens.targets[length - 1] = target;
      EXPECT_NEAR(model->loss(tokens.batch(1)),
                  std::log(sum) - logits[static_cast<std::size_t>(target)], 1e-4);
    }
  }
  EXPECT_THROW(model->next_logits({}, logits), Error);
}

TEST(Gpt, RefusesTokensOutsideTheVocabularyAndBatchesThatDoNotFit) {
  const config::Model config = small_config();
  const auto model = make_model(config, 1, 1);
  Tokens tokens(config, 1);
  EXPECT_THROW(model->loss(tokens.batch(2)), Error);
  tokens.inputs[3] = 29;
  EXPECT_THROW(model->loss(tokens.batch(1)), Error);
  tokens.inputs[3] = 0;
  tokens.targets[3] = -2;
  EXPECT_THROW(model->forward_backward(tokens.batch(1)), Error);
}

TEST(Gpt, ActivationsGrowWithTheBatchAndStaySmall) {
  config::Model config;
  config.vocabulary = 256;
  const auto model = make_model(config, 16, 1);
  const std::int64_t one = model->activation_bytes(8);
  const std::int64_t two = model->activation_bytes(16);
  EXPECT_GT(two, one * 3 / 2);
  // Two residual streams, queries to values, their mix and the inner layer are 10 rows of the width
  // a layer; nothing of T x T.
  const std::int64_t per_layer = 10 * 16 * config.context * config.width * 4;
  EXPECT_GT(two, config.layers * per_layer);
  EXPECT_LT(two, (config.layers + 2) * per_layer);
}

}  // namespace
}  // namespace archipelago::model
