#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "model/model.h"

namespace archipelago::model {
namespace {

config::Model small_config() {
  config::Model config;
  config.layers = 2;
  config.width = 24;
  config.heads = 3;
  config.context = 11;
  config.vocabulary = 29;
  return config;
}

struct Tokens {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  Tokens(const config::Model& config, std::int64_t batch) {
    Random random(7);
    for (std::int64_t i = 0; i < batch * config.context; ++i) {
      const auto bound = static_cast<std::uint64_t>(config.vocabulary);
      inputs.push_back(static_cast<std::int32_t>(random.below(bound)));
      targets.push_back(static_cast<std::int32_t>(random.below(bound)));
    }
  }
};

TEST(Gpt, LearnsOneBatchByHeart) {
  const config::Model config = small_config();
  const auto model = make_model(config, 2, 1);
  model->initialize(1);
  const Tokens tokens(config, 2);
  const Batch batch{2, tokens.inputs, tokens.targets};
  config::Train settings;
  settings.weight_decay = 0;
  AdamW optimizer(model->tensors(), settings);
  const float first = model->loss(batch);
  EXPECT_NEAR(first, std::log(29.0), 0.1);
  for (int step = 0; step < 300; ++step) {
    model->forward_backward(batch);
    optimizer.step(model->parameters(), model->gradients(), 3e-3);
  }
  EXPECT_LT(model->loss(batch), 0.05);
}

}  // namespace
}  // namespace archipelago::model
