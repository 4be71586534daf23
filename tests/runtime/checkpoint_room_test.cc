#include "runtime/checkpoint_room.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/checkpoint.h"
#include "runtime/run_folder.h"
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

TEST(CheckpointRoom, CheckpointsAreAsLargeAsItSays) {
  config::RunConfig config = tiny_config();
  config.model.vocabulary = 4096;
  config.model.width = 32;
  config.sync.learners = 2;
  config.learners[1]["train.optimizer"] = "sgd";
  const auto setup = make_setup(config);
  const CheckpointBytes told = checkpoint_bytes(setup);
  const auto folder =
      std::filesystem::temp_directory_path() / ("room." + std::to_string(::getpid()));
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

TEST(CheckpointRoom, EveryKindIsKeptAndOneOnItsWay) {
  config::RunConfig config = tiny_config();
  config.model.vocabulary = 16;
  config.sync.learners = 2;
  config.checkpoint.keep = 4;
  // Parameters and momentum, and of each learner parameters and two moments.
  const auto floats = 4.0 * static_cast<double>(make_setup(config).parameters);
  EXPECT_EQ(bytes_of_checkpoints(make_setup(config)), 5 * (2 + 2 * 3) * floats);
  config.checkpoint.keep_every = 50;
  config.sync.fragments = 5;
  config.sync.interval = 10;
  config.train.steps = 400;  // 200 rounds
  EXPECT_EQ(bytes_of_checkpoints(make_setup(config)), (5 * (2 + 2 * 3) + 4 * 2) * floats);
  config.method = "data-parallel";
  EXPECT_EQ(bytes_of_checkpoints(make_setup(config)), 2 * floats);
}

TEST(CheckpointRoom, CheckpointsThatAreThereMakeRoomForTheNext) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("room." + std::to_string(::getpid()));
  const auto before = free_room(folder / "not" / "there");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->folder, std::filesystem::temp_directory_path());
  EXPECT_EQ(before->taken, 0);
  const RunFolder run(folder);
  std::filesystem::create_directories(run.checkpoints());
  std::ofstream(run.checkpoints() / "global-0000000001.h5") << std::string(1000, 'x');
  std::ofstream(run.checkpoints() / "learner-0-0000000001.h5") << std::string(200, 'x');
  const auto room = free_room(folder);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->folder, folder);
  EXPECT_EQ(room->taken, 1200);
  EXPECT_TRUE(room->holds(room->free + 1200));
  EXPECT_FALSE(room->holds(room->free + 1201));
  EXPECT_FALSE(free_room(""));
  std::filesystem::remove_all(folder);
}

TEST(CheckpointRoom, TooLittleIsSaidInOneLine) {
  config::RunConfig config = tiny_config();
  config.model.vocabulary = 16;
  const auto said = [&](const char* out) {
    config.out = out;
    testing::internal::CaptureStderr();
    warn_of_little_room(make_setup(config));
    return testing::internal::GetCapturedStderr();
  };
  const std::string line = said("/proc");
  EXPECT_NE(line.find("/proc has room for 0 B"), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(said(""), "");
}

}  // namespace
}  // namespace archipelago::runtime
