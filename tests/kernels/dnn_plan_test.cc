#include <cuda_runtime.h>
#include <cudnn_frontend.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/patch_graph.h"
#include "loading_driver.h"

// cuDNN itself plans every graph for GPUs that are not there (its deviceless compilation): it takes
// shapes, strides, types and unique numbers, chooses an engine for that GPU, compiles its kernels.

namespace archipelago::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;

struct Gpu {
  const char* name;
  int sm;  // compute capability times 10
  int multiprocessors;
  int clock_khz;
  int memory_clock_khz;
  int cache_bytes;
  int shared_bytes;  // of a block that asks for more than 48 KiB
  std::int64_t memory_bytes;
};

constexpr Gpu kGpus[] = {
    {"NVIDIA A100-SXM4-80GB", 80, 108, 1'410'000, 1'593'000, 40 << 20, 163 << 10, 80LL << 30},
    {"NVIDIA H200", 90, 132, 1'980'000, 3'201'000, 60 << 20, 227 << 10, 140LL << 30},
};

// As cuDNN writes a GPU's properties itself.
std::string to_json(const Gpu& gpu) {
  const auto field = [](const char* name, std::int64_t value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  return std::string("{\"deviceName\": \"") + gpu.name + '"' + field("cudaDeviceId", 0) +
         field("deviceVer", 10 * gpu.sm) + field("driverVer", 13000) +
         field("multiProcessorCount", gpu.multiprocessors) +
         field("smClockRateKHz", gpu.clock_khz) + field("memClockRateKHz", gpu.memory_clock_khz) +
         field("l2CacheSize", gpu.cache_bytes) + field("maxSharedMemoryPerBlock", 48 << 10) +
         field("maxSharedMemoryPerBlockOptin", gpu.shared_bytes) +
         field("reservedSharedMemoryPerBlock", 1 << 10) +
         field("totalGlobalMem", gpu.memory_bytes) + field("regsPerBlock", 1 << 16) +
         field("maxRegistersPerSM", 1 << 16) + field("maxCtasPerSM", 32) +
         field("maxThreadsPerBlock", 1024) + field("maxThreadsPerSM", 2048) +
         field("warpSize", 32) + field("pciDeviceId", 0) + field("isTccDriver", 0) +
         field("supportCoopLaunch", 1) +
         ", \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64]}";
}

int planned_sm = 0;

class DnnPlans : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN before 9.8 plans for the GPU it has only";
    planned_sm = GetParam().sm;
    const std::string text = to_json(GetParam());
    auto error = properties_->deserialize(std::vector<std::uint8_t>(text.begin(), text.end()));
    ASSERT_TRUE(error.is_good()) << error.get_message();
  }

  std::string problem_with(DnnGraph graph, bool deterministic) {
    graph->set_device_properties(properties_);
    return find_plan(graph, nullptr, deterministic);
  }

  std::shared_ptr<fe::DeviceProperties> properties_ = std::make_shared<fe::DeviceProperties>();
};

// The heads of GPT-2 and of vision transformers, the narrowest and the widest, odd lengths.
constexpr AttentionShape kShapes[] = {
    {.B = 4, .T = 1024, .NH = 12, .D = 64, .causal = true},
    {.B = 2, .T = 197, .NH = 12, .D = 64, .causal = false},
    {.B = 8, .T = 64, .NH = 3, .D = 64, .causal = false},
    {.B = 8, .T = 192, .NH = 3, .D = 128, .causal = false},
    {.B = 2, .T = 37, .NH = 3, .D = 80, .causal = true},
    {.B = 1, .T = 2, .NH = 1, .D = 8, .causal = true},
    {.B = 1, .T = 50, .NH = 2, .D = 128, .causal = false},
};

TEST_P(DnnPlans, AttentionHasThem) {
  const int before = loaded_kernels();
  for (const AttentionShape& shape : kShapes) {
    const std::string which = "T " + std::to_string(shape.T) + ", D " + std::to_string(shape.D);
    EXPECT_EQ(problem_with(forward_graph(shape), false), "") << which;
    for (const bool deterministic : {false, true}) {
      EXPECT_EQ(problem_with(backward_graph(shape, deterministic), deterministic), "") << which;
    }
  }
  EXPECT_GT(loaded_kernels(), before) << "nothing was compiled for this GPU";
}

TEST_P(DnnPlans, PatchEmbeddingsHaveThem) {
  constexpr PatchShape kPatchShapes[] = {
      {.B = 2, .channels = 1, .side = 28, .patch = 7, .O = 64},
      {.B = 8, .channels = 3, .side = 32, .patch = 4, .O = 192},
      {.B = 32, .channels = 3, .side = 224, .patch = 16, .O = 768},
  };
  for (const PatchShape& shape : kPatchShapes) {
    for (const bool deterministic : {false, true}) {
      const std::string which = "side " + std::to_string(shape.side);
      EXPECT_EQ(problem_with(patch_forward_graph(shape), deterministic), "") << which;
      EXPECT_EQ(problem_with(patch_backward_graph(shape), deterministic), "") << which;
    }
  }
}

TEST_P(DnnPlans, WhatCudnnCannotDoHasNone) {
  EXPECT_NE(problem_with(forward_graph({.B = 1, .T = 4, .NH = 1, .D = 7, .causal = true}), false),
            "");
}

INSTANTIATE_TEST_SUITE_P(Gpus, DnnPlans, testing::ValuesIn(kGpus),
                         [](const auto& test) { return "Sm" + std::to_string(test.param.sm); });

}  // namespace

// What the frontend asks the runtime for, in spite of the properties (the linker's --wrap).
extern "C" {

cudaError_t __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute == cudaDevAttrComputeCapabilityMajor) {
    *value = planned_sm / 10;
  } else if (attribute == cudaDevAttrComputeCapabilityMinor) {
    *value = planned_sm % 10;
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}
}

}  // namespace archipelago::kernels::cuda
