#include "emulate/data_parallel.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "checkpoint/names.h"
#include "runtime/global_state.h"
#include "runtime/learner_state.h"
#include "tests/emulate/emulated.h"

namespace archipelago::emulate {
namespace {

class EmulatedDataParallel : public Emulated {
 protected:
  Outcome train(const runtime::Setup& setup) {
    runtime::RunFolder run(folder_ / "run");
    run.open_for_one_start();
    if (!has_room_) take_room(run);
    if (is_stopped_) std::ofstream(run.stop()).close();
    runtime::RunRecord record(run);
    return train_data_parallel(setup, *dataset_, conditions_, run, record);
  }

  std::ptrdiff_t saved() const {
    return std::ssize(checkpoint::list_global(folder_ / "run" / "checkpoints"));
  }

  // As src/baseline does: learners of their own, each on its share of the data, whose gradients are
  // averaged in every step.
  std::vector<float> averaged(const runtime::Setup& setup) const {
    const int learners = setup.config.sync.learners;
    std::vector<std::unique_ptr<runtime::LearnerState>> states;
    const runtime::GlobalState initial(setup);
    for (int learner = 0; learner < learners; ++learner) {
      states.push_back(std::make_unique<runtime::LearnerState>(
          setup, *dataset_, kernels::make_cpu_kernels(1), learner, 0, 1));
      states.back()->begin(0, 0, nullptr);
      states.back()->take_fixed_share();
      for (int p = 0; p < setup.fragment_count(); ++p) {
        states.back()->receive(p, 0, *initial.theta(p));
      }
    }
    std::barrier meeting(learners);
    const auto train = [&](int learner) {
      for (std::int64_t step = 0; step < setup.config.train.steps; ++step) {
        states[learner]->step([&](std::span<float> values) {
          if (values.size() < 10) return;  // the loss, for people
          meeting.arrive_and_wait();
          if (learner == 0) {
            for (std::size_t i = 0; i < values.size(); ++i) {
              double sum = 0;
              for (const auto& state : states) sum += state->gradients()[i];
              for (const auto& state : states) {
                state->gradients()[i] = static_cast<float>(sum / learners);
              }
            }
          }
          meeting.arrive_and_wait();
        });
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int learner = 0; learner < learners; ++learner) threads.emplace_back(train, learner);
    }
    const auto parameters = states[0]->parameters();
    return {parameters.begin(), parameters.end()};
  }
};

TEST_F(EmulatedDataParallel, IsTheMeanOfTheLearnersGradients) {
  config_.sync.learners = 7;  // the text has 49 windows
  config_.train.steps = 30;
  config_.train.optimizer = "sgd";  // AdamW's first steps are signs, which rounding decides
  config_.train.lr = 0.1;
  const runtime::Setup setup = make_setup();
  conditions_.step_seconds = {1, 1, 1, 1, 1, 1, 2};
  const Outcome outcome = train(setup);
  const std::vector<float> expected = averaged(setup);
  ASSERT_EQ(outcome.parameters.size(), expected.size());
  double difference = 0;
  double moved = 0;
  std::vector<float> initial(expected.size());
  model::initialize_parameters(setup.tensors, setup.config.model, setup.config.train.seed, initial);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference = std::max<double>(difference, std::abs(outcome.parameters[i] - expected[i]));
    moved = std::max<double>(moved, std::abs(initial[i] - expected[i]));
  }
  EXPECT_LT(difference, 1e-4 * moved);
  EXPECT_GT(moved, 0.05);
  EXPECT_EQ(outcome.tokens, setup.token_budget());
  EXPECT_EQ(outcome.seconds, 60);
  // Seven batches in two seconds; alone the learners train 6.5 a second.
  EXPECT_NEAR(outcome.goodput, 7 / 13.0, 1e-9);
}

TEST_F(EmulatedDataParallel, EndsInOrderWhenAskedTo) {
  is_stopped_ = true;
  const Outcome outcome = train(make_setup());
  EXPECT_EQ(outcome.end, sync::Outcome::stopped);
  EXPECT_EQ(outcome.reason, runtime::kStopOfUser);
  EXPECT_EQ(outcome.tokens, 0);
  EXPECT_EQ(saved(), 1);
}

TEST_F(EmulatedDataParallel, OutlivesALastCheckpointThatFindsNoRoom) {
  config_.train.steps = 5;
  has_room_ = false;
  const Outcome outcome = train(make_setup());
  EXPECT_TRUE(outcome.unsaved);
  EXPECT_EQ(outcome.end, sync::Outcome::complete);
}

TEST_F(EmulatedDataParallel, KeepsNothingOfADivergence) {
  config_.train.optimizer = "sgd";
  config_.train.lr = 1e30;
  config_.train.warmup = 0;
  config_.train.clip = 0;
  const Outcome outcome = train(make_setup());
  EXPECT_EQ(outcome.end, sync::Outcome::diverged);
  EXPECT_LT(outcome.tokens, make_setup().token_budget());
  EXPECT_EQ(saved(), 0);
}

}  // namespace
}  // namespace archipelago::emulate
