#include "baseline/data_parallel.h"

#include <gtest/gtest.h>

#include "baseline/require.h"
#include "tiny_run.h"

namespace archipelago::baseline {
namespace {

std::unique_ptr<Method> data_parallel(const runtime::Setup& setup, runtime::LearnerState& state,
                                      Averager& averager) {
  return std::make_unique<DataParallel>(setup, state, averager);
}

std::vector<float> trained(const config::RunConfig& config, const data::TokenDataset& dataset) {
  const auto setup = setup_of(config, dataset);
  return train(setup, dataset, 12, data_parallel).common.parameters;
}

TEST(DataParallelTest, ThreeLearnersMakeTheStepsOfOneWithThreeTimesTheBatch) {
  const auto dataset = tiny_dataset();
  const auto together = trained(tiny_config("data-parallel", 3), dataset);
  auto config = tiny_config("data-parallel", 1);
  config.train.batch = 6;
  const auto alone = trained(config, dataset);
  const auto initial = runtime::GlobalState(setup_of(config, dataset)).flat_parameters();
  EXPECT_LT(relative_distance(together, alone, initial), 1e-3);
  // Another batch is told apart.
  config.train.batch = 4;
  EXPECT_GT(relative_distance(trained(config, dataset), alone, initial), 0.1);
}

TEST(DataParallelTest, BucketsLeaveWhileBackwardGoesOn) {
  const auto dataset = tiny_dataset();
  auto config = tiny_config("data-parallel", 1);
  config.model.width = 256;  // each half of the block is larger than a bucket
  const auto setup = setup_of(config, dataset);
  std::int64_t means = 0;
  train(setup, dataset, 1, [&](const auto& s, auto& state, Averager& averager) {
    struct Counting : DataParallel {
      Counting(const runtime::Setup& s, runtime::LearnerState& state, Averager& averager,
               std::int64_t& means)
          : DataParallel(s, state, averager), averager_(averager), means_(means) {}
      void finish() override { means_ = static_cast<SharedAverager&>(averager_).started(); }
      Averager& averager_;
      std::int64_t& means_;
    };
    return std::make_unique<Counting>(s, state, averager, means);
  });
  EXPECT_EQ(means, 3);  // feed-forward, attention, the tables
}

TEST(DataParallelTest, AStepThatWasGivenUpLeavesNoTrace) {
  const auto dataset = tiny_dataset();
  const auto setup = setup_of(tiny_config("data-parallel", 1), dataset);
  const auto with_a_break_at = [&](std::int64_t broken) {
    runtime::LearnerState state(setup, dataset, kernels::make_cpu_kernels(1), 0, 0, 1);
    begin(setup, state);
    for (std::int64_t step = 0; step < 6; ++step) {
      if (step == broken) {
        EXPECT_THROW(state.step([](std::span<float>) { throw ExchangeEnded(); }), ExchangeEnded);
        state.restart(1, {{0, step * setup.config.train.batch}});
      }
      state.step([](std::span<float>) {});
    }
    return std::vector<float>(state.parameters().begin(), state.parameters().end());
  };
  EXPECT_EQ(with_a_break_at(3), with_a_break_at(-1));
}

}  // namespace
}  // namespace archipelago::baseline
