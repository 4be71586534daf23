#include "baseline/data_parallel.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace archipelago::baseline
