#include "baseline/diloco.h"

#include <gtest/gtest.h>

#include "data/token_dataset.h"
#include "model/optimizer.h"
#include "reference_model.h"
#include "tiny_run.h"

namespace archipelago::baseline {
namespace {

using reference::Array;

// The exchanges of a run, by hand: which fragment leaves after which inner step, and after which it
// is merged.
struct Exchange {
  int fragment;
  std::int64_t leaves;
  std::int64_t merged;
};

// All learners and the outer optimizer again, in double, with gradients by finite differences.
class Reference {
 public:
  Reference(const runtime::Setup& setup, const data::TokenDataset& dataset)
      : setup_(setup),
        dataset_(dataset),
        order_(static_cast<std::int64_t>(dataset.tokens(data::Split::train).size()),
               setup.config.model.context, setup.config.sync.learners, setup.config.train.seed) {
    theta_ = reference::to_double(runtime::GlobalState(setup).flat_parameters());
    outer_.assign(theta_.size(), 0);
    learners_.assign(static_cast<std::size_t>(setup.config.sync.learners),
                     {theta_, Array(theta_.size(), 0), Array(theta_.size(), 0)});
  }

  Array train(std::int64_t steps, const std::vector<Exchange>& exchanges) {
    std::vector<Array> means(exchanges.size());
    for (std::int64_t step = 1; step <= steps; ++step) {
      for (std::size_t i = 0; i < learners_.size(); ++i) inner_step(static_cast<int>(i), step);
      for (std::size_t e = 0; e < exchanges.size(); ++e) {
        if (exchanges[e].leaves == step) means[e] = mean();
        if (exchanges[e].merged == step) outer_step(exchanges[e].fragment, means[e]);
      }
    }
    return theta_;
  }

 private:
  struct Learner {
    Array parameters, m, v;
  };

  // AdamW (Loshchilov and Hutter 2019) with clipping.
  void inner_step(int number, std::int64_t t) {
    Learner& learner = learners_[static_cast<std::size_t>(number)];
    const auto& settings = setup_.config.train;
    const auto& model = setup_.config.model;
    std::vector<std::int32_t> inputs(static_cast<std::size_t>(settings.batch * model.context));
    std::vector<std::int32_t> targets(inputs.size());
    for (std::int64_t row = 0; row < settings.batch; ++row) {
      data::fill_row(dataset_, order_, {number, (t - 1) * settings.batch + row}, row, model.context,
                     inputs, targets);
    }
    const model::Batch batch{settings.batch, inputs, targets};
    Array gradient = reference::numeric_gradient(
        [&](const Array& x) {
          return reference::model_losses(model, setup_.tensors, x, batch).objective;
        },
        learner.parameters);
    const double norm = std::sqrt(reference::dot(gradient, gradient));
    const double lr = model::learning_rate(settings, t - 1);
    for (const auto& tensor : setup_.tensors) {
      const double decay = tensor.role == model::TensorRole::vector ? 0 : settings.weight_decay;
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        const double g = gradient[i] * std::min(1.0, settings.clip / norm);
        learner.m[i] = settings.beta1 * learner.m[i] + (1 - settings.beta1) * g;
        learner.v[i] = settings.beta2 * learner.v[i] + (1 - settings.beta2) * g * g;
        const double m = learner.m[i] / (1 - std::pow(settings.beta1, t));
        const double v = learner.v[i] / (1 - std::pow(settings.beta2, t));
        learner.parameters[i] -= lr * (m / (std::sqrt(v) + 1e-8) + decay * learner.parameters[i]);
      }
    }
  }

  Array mean() const {
    Array sum(theta_.size(), 0);
    for (const Learner& learner : learners_) sum = reference::sum(sum, learner.parameters);
    for (double& value : sum) value /= static_cast<double>(learners_.size());
    return sum;
  }

  void outer_step(int fragment, const Array& mean) {
    const double eta = setup_.config.sync.outer_lr;
    const double mu = setup_.config.sync.outer_momentum;
    for (const auto& piece : setup_.fragments[static_cast<std::size_t>(fragment)].pieces) {
      for (std::int64_t i = piece.offset; i < piece.offset + piece.size; ++i) {
        const double delta = theta_[i] - mean[i];
        outer_[i] = mu * outer_[i] + delta;
        theta_[i] -= eta * (delta + mu * outer_[i]);
        for (Learner& learner : learners_) learner.parameters[i] = theta_[i];
      }
    }
  }

  const runtime::Setup& setup_;
  const data::TokenDataset& dataset_;
  data::SequenceOrder order_;
  Array theta_, outer_;
  std::vector<Learner> learners_;
};

std::unique_ptr<Method> diloco(const runtime::Setup& setup, runtime::LearnerState& state,
                               Averager& averager) {
  return std::make_unique<Diloco>(setup, state, IslandCalls{}, &averager);
}

class DilocoTest : public testing::Test {
 protected:
  void compare(const config::RunConfig& config, std::int64_t steps,
               const std::vector<Exchange>& exchanges, std::vector<std::int32_t> versions) {
    const auto setup = setup_of(config, dataset_);
    ASSERT_EQ(setup.fragments.size(), versions.size());
    const auto initial = runtime::GlobalState(setup).flat_parameters();
    const auto result = train(setup, dataset_, steps, diloco);
    EXPECT_EQ(result.common.versions, versions);
    const Array expected = Reference(setup, dataset_).train(steps, exchanges);
    EXPECT_LT(relative_distance(result.common.parameters, expected, initial), 1e-3);
    // One exchange less is told apart.
    const std::vector<Exchange> fewer(exchanges.begin(), exchanges.end() - 1);
    const Array other = Reference(setup, dataset_).train(steps, fewer);
    EXPECT_GT(relative_distance(result.common.parameters, other, initial), 0.05);
  }

  data::TokenDataset dataset_ = tiny_dataset();
};

TEST_F(DilocoTest, MergesEverythingEveryHSteps) {
  auto config = tiny_config("diloco", 3);
  config.sync.interval = 2;
  compare(config, 6, {{0, 2, 2}, {0, 4, 4}, {0, 6, 6}}, {3});
}

TEST_F(DilocoTest, WhatIsLeftAtTheEndIsMerged) {
  auto config = tiny_config("diloco", 2);
  config.sync.interval = 4;
  compare(config, 5, {{0, 4, 4}, {0, 5, 5}}, {2});
}

TEST_F(DilocoTest, StreamingMergesFragmentsInTurnAndLate) {
  auto config = tiny_config("streaming-diloco", 2);
  config.sync.interval = 4;
  config.sync.fragments = 2;
  config.sync.overlap = 1;
  // Fragment 0 has been trained for one step since its last merge, fragment 1 leaves at the end.
  compare(config, 8, {{0, 2, 3}, {1, 4, 5}, {0, 6, 7}, {1, 8, 8}, {0, 8, 8}}, {3, 2});
}

TEST_F(DilocoTest, LearnersMeetWhereOneMayHaveToWait) {
  auto config = tiny_config("streaming-diloco", 1);
  config.sync.interval = 4;
  config.sync.fragments = 2;
  config.sync.overlap = 1;
  const auto setup = setup_of(config, dataset_);
  SharedMean mean(1);
  SharedAverager averager(mean);
  runtime::LearnerState state(setup, dataset_, kernels::make_cpu_kernels(1), 0, 0, 1);
  begin(setup, state);
  Diloco method(setup, state, {}, &averager);
  std::vector<std::int64_t> meetings;
  for (std::int64_t step = 1; step <= 8; ++step) {
    if (method.meets(step)) meetings.push_back(step);
    method.step(step);
  }
  EXPECT_EQ(meetings, (std::vector<std::int64_t>{3, 5, 7}));
}

}  // namespace
}  // namespace archipelago::baseline
