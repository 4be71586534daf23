#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/error.h"
#include "model/optimizer.h"
#include "model_test.h"
#include "reference_model.h"

namespace archipelago::model {
namespace {

// Loss and gradient of one step, where small_config() alone would not show what they have to.
void expect_double_precision(const config::Model& config, const Batch& batch) {
  const auto model = make_model(config, batch.batch, 1);
  scatter_parameters(*model);
  const reference::Array parameters = reference::to_double(model->parameters());
  const double loss = reference::model_losses(config, model->tensors(), parameters, batch).loss;
  EXPECT_NEAR(model->loss(batch), loss, 1e-5 * loss);
  EXPECT_NEAR(model->forward_backward(batch), loss, 1e-5 * loss);

  // Along the gradient the loss rises by the gradient's squared norm.
  const auto along = [&](const reference::Array& step) {
    reference::Array moved = parameters;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] += step[0] * static_cast<double>(model->gradients()[i]);
    }
    return reference::model_losses(config, model->tensors(), moved, batch).loss;
  };
  const reference::Array gradient = reference::to_double(model->gradients());
  const double squared = reference::dot(gradient, gradient);
  EXPECT_NEAR(reference::numeric_gradient(along, {0.0})[0], squared, 1e-4 * squared);
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
  expect_double_precision(config, Example(config, 3).batch(3));
}

// So many rows that they go through the model in slices, which have different numbers of targets.
TEST(Gpt, SlicesOfABatchMatchDoublePrecision) {
  config::Model config = small_config();
  config.layers = 1;
  config.width = 8;
  config.heads = 1;
  config.context = kernels::kHostRowsAtOnce / 2 - 1;
  Example tokens(config, 5);
  std::fill_n(tokens.targets.begin(), config.context / 2, -1);
  std::fill_n(tokens.targets.end() - config.context, config.context, -1);
  expect_double_precision(config, tokens.batch(5));
}

TEST(Gpt, SmallerBatchThanMadeForGivesTheSame) {
  const config::Model config = small_config();
  const Example tokens(config, 2);
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
  Example tokens(config, 1);
  std::fill(tokens.targets.begin(), tokens.targets.end(), -1);
  EXPECT_EQ(model->forward_backward(tokens.batch(1)), 0);
  for (const float g : model->gradients()) EXPECT_EQ(g, 0);
}

TEST(Gpt, NextLogitsAreThoseThatTheLossComesFrom) {
  const config::Model config = small_config();
  const auto model = make_model(config, 1, 1);
  model->initialize(1);
  scatter_parameters(*model);
  Example tokens(config, 1);
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
  Example tokens(config, 1);
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
  const std::int64_t most = kernels::kHostRowsAtOnce / config.context;
  const auto model = make_model(config, 2 * most, 1);
  const std::int64_t one = model->activation_bytes(most / 2);
  const std::int64_t two = model->activation_bytes(most);
  EXPECT_GT(two, one * 3 / 2);
  EXPECT_EQ(model->activation_bytes(2 * most), two);
  // Two residual streams, queries to values, their mix and the inner layer are 10 rows of the width
  // a layer; nothing of T x T.
  const std::int64_t per_layer = 10 * most * config.context * config.width * 4;
  EXPECT_GT(two, config.layers * per_layer);
  EXPECT_LT(two, (config.layers + 2) * per_layer);
}

#if !defined(__SANITIZE_ADDRESS__)
std::int64_t resident_bytes() {
  std::int64_t size = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// What activation_bytes leaves out (scratch of kernels and library) is small.
TEST(Gpt, ResidentMemoryIsParametersGradientsMomentsAndActivations) {
  config::Model config;
  config.width = 384;
  config.heads = 6;
  config.vocabulary = 256;
  constexpr std::int64_t kBatch = 8;
  const std::int64_t before = resident_bytes();
  const auto model = make_model(config, kBatch, 1);
  const Example tokens(config, kBatch);
  AdamW optimizer(model->tensors(), config::Train{}, model->kernels());
  model->forward_backward(tokens.batch(kBatch));
  optimizer.step(model->parameters(), model->gradients(), 1e-3);
  const auto needed = static_cast<double>(4 * 4 * model->parameters().size()) +
                      static_cast<double>(model->activation_bytes(kBatch));
  const auto used = static_cast<double>(resident_bytes() - before);
  EXPECT_GT(used, 0.9 * needed);
  EXPECT_LT(used, 1.2 * needed);
}
#endif

}  // namespace
}  // namespace archipelago::model
