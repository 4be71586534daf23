#include "runtime/device.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/file.h"
#include "kernels/gpu_address.h"

namespace archipelago::runtime {
namespace {

using Islands = std::vector<std::vector<island::Member>>;

TEST(DeviceTest, PlacesCountTheHostsRanksBefore) {
  const Islands islands = {{{"a", 1}, {"b", 2}}, {{"a", 3}, {"a", 4}}, {{"b", 5}, {"c", 6}}};
  EXPECT_EQ(place_on_host(islands, 0, 0), 0);
  EXPECT_EQ(place_on_host(islands, 0, 1), 0);
  EXPECT_EQ(place_on_host(islands, 1, 0), 1);
  EXPECT_EQ(place_on_host(islands, 1, 1), 2);
  EXPECT_EQ(place_on_host(islands, 2, 0), 1);
  EXPECT_EQ(place_on_host(islands, 2, 1), 0);
}

TEST(DeviceTest, LearnersShareTheirHostsEnergy) {
  const Islands islands = {{{"a", 1}, {"b", 2}}, {{"a", 3}, {"a", 4}}, {{"b", 5}, {"c", 6}}};
  EXPECT_EQ(ranks_on_host(islands, 0, 0), 3);
  EXPECT_EQ(ranks_on_host(islands, 2, 0), 2);
  EXPECT_EQ(ranks_on_host(islands, 2, 1), 1);
  config::RunConfig config;
  config.sync.learners = 3;
  EXPECT_DOUBLE_EQ(energy_share(config, {}, 2), 0.5);
  EXPECT_DOUBLE_EQ(energy_share(config, {}, 4), 1.0 / 3) << "one of the four sleeps";
}

TEST(DeviceTest, EachRankOfAnIslandNeedsAGpuOfItsOwn) {
  const std::vector<std::string> gpus = {"a 0", "a 1", "b 0", "", "", "a 1"};
  for (std::size_t rank = 0; rank < 5; ++rank) require_own_gpu(gpus, rank);
  try {
    require_own_gpu(gpus, 5);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("on one GPU, a 1;"), std::string::npos);
  }
}

TEST(DeviceTest, GpusAreKnownByHostAndAddress) {
  config::RunConfig config;
  EXPECT_EQ(own_gpu(config, 0), "");
  config.device = "auto";
  if (kernels::cuda_devices() == 0) {
    EXPECT_EQ(own_gpu(config, 0), "");
  } else {
    EXPECT_EQ(own_gpu(config, 0), host_name() + " " + kernels::gpu_address(0));
  }
}

TEST(DeviceTest, OnAProcessorThreadsAreTheOptions) {
  config::RunConfig config;
  config.train.threads = 3;
  require_device(config);
  const kernels::Device device = choose_device(config, 5);
  EXPECT_EQ(device.kind, kernels::Device::Kind::cpu);
  EXPECT_EQ(device.threads, 3);
}

TEST(DeviceTest, OtherMethodsStayOnProcessors) {
  config::RunConfig config;
  config.device = "auto";
  config.method = "diloco";
  EXPECT_EQ(choose_device(config, 0).kind, kernels::Device::Kind::cpu);
  config.device = "cuda";
  EXPECT_THROW(require_device(config), Error);
}

TEST(DeviceTest, AutoIsAGpuWhereThereIsOne) {
  config::RunConfig config;
  config.device = "auto";
  config.train.precision = "f32";
  config.train.deterministic = true;
  require_device(config);
  const kernels::Device device = choose_device(config, 1);
  const int gpus = kernels::cuda_devices();
  ASSERT_EQ(device.kind == kernels::Device::Kind::cuda, gpus > 0);
  if (gpus == 0) return;
  EXPECT_EQ(device.index, 1 % gpus);
  EXPECT_EQ(device.precision, kernels::Precision::f32);
  EXPECT_TRUE(device.deterministic);
}

TEST(DeviceTest, CudaWithoutAGpuIsOneClearLine) {
  if (kernels::cuda_devices() > 0) GTEST_SKIP() << "there is a GPU";
  config::RunConfig config;
  config.device = "cuda";
  try {
    require_device(config);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    const std::string line = error.what();
    EXPECT_NE(line.find(kernels::why_no_cuda()), std::string::npos) << line;
    EXPECT_NE(line.find("--device cpu"), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace archipelago::runtime
