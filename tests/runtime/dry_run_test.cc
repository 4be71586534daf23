#include "runtime/dry_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "tests/runtime/tiny_setup.h"

namespace archipelago::runtime {
namespace {

// Attributes, the clock and what HDF5 needs for a dataset.
constexpr std::int64_t kPerDataset = 2048;

checkpoint::Common common_of(const Setup& setup) {
  checkpoint::Common common;
  common.tensors = setup.tensors;
  common.parameters.resize(static_cast<std::size_t>(setup.parameters));
  common.fragment_of_tensor = setup.fragment_of_tensor;
  common.versions.resize(static_cast<std::size_t>(setup.fragment_count()));
  return common;
}

TEST(DryRun, CheckpointsAreAsLargeAsItSays) {
  config::RunConfig config = tiny_config();
  config.model.vocabulary = 4096;
  config.model.width = 32;
  config.sync.learners = 2;
  config.learners[1]["train.optimizer"] = "sgd";
  const auto setup = make_setup(config);
  const CheckpointBytes told = checkpoint_bytes(setup);
  const auto folder =
      std::filesystem::temp_directory_path() / ("dry." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto parameters = static_cast<std::size_t>(setup.parameters);
  const auto datasets = static_cast<std::int64_t>(setup.tensors.size());

  checkpoint::Global global;
  global.common = common_of(setup);
  global.momentum.resize(parameters);
  checkpoint::save(folder, global, 1);
  const auto size = [&](const std::filesystem::path& name) {
    return static_cast<std::int64_t>(std::filesystem::file_size(folder / name));
  };
  const std::int64_t global_bytes = size(checkpoint::global_name(0));
  EXPECT_GE(global_bytes, told.global);
  EXPECT_LE(global_bytes, told.global + kPerDataset * 2 * datasets);

  checkpoint::Learner adam;
  adam.common = common_of(setup);
  adam.adam_m.resize(parameters);
  adam.steps_since.resize(adam.common.versions.size());
  adam.tokens_since.resize(adam.common.versions.size());
  checkpoint::Learner sgd = adam;
  adam.adam_v.resize(parameters);
  sgd.learner = 1;
  checkpoint::save(folder, adam, 1);
  checkpoint::save(folder, sgd, 1);
  const std::int64_t learner_bytes =
      size(checkpoint::learner_name(0, 0)) + size(checkpoint::learner_name(1, 0));
  EXPECT_GE(learner_bytes, told.learners);
  EXPECT_LE(learner_bytes, told.learners + kPerDataset * 5 * datasets);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace archipelago::runtime
