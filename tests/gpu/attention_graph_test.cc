#include "kernels/cuda/attention_graph.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

// cuDNN's own view of the graphs before any is run: shapes, strides and types fit together, and
// every tensor that the graph works out has the ones that it was given. It asks the GPU.

namespace archipelago::kernels::cuda {
namespace {

constexpr AttentionShape kShapes[] = {
    {1, 2, 1, 8, true}, {2, 37, 3, 64, true}, {4, 1024, 12, 64, true}, {2, 197, 6, 128, false}};

class AttentionGraph : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(AttentionGraph, IsValidToCudnn) {
  for (const AttentionShape& shape : kShapes) {
    auto forward = forward_graph(shape)->validate();
    EXPECT_TRUE(forward.is_good()) << forward.get_message();
    for (const bool deterministic : {false, true}) {
      auto backward = backward_graph(shape, deterministic)->validate();
      EXPECT_TRUE(backward.is_good()) << backward.get_message();
    }
  }
}

TEST_F(AttentionGraph, AWrongShapeWouldBeSeen) {
  EXPECT_TRUE(forward_graph({0, 4, 1, 8, true})->validate().is_bad() ||
              forward_graph({1, 4, 1, 7, true})->validate().is_bad());
}

}  // namespace
}  // namespace archipelago::kernels::cuda
