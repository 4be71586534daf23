#include <cuda_runtime.h>
#include <cudnn_frontend.h>
#include <gtest/gtest.h>

#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/patch_graph.h"

// cuDNN's own view of the graphs before any is run: shapes, strides and types fit together, and
// every tensor that the graph works out has the ones that it was given. It asks the GPU.

namespace archipelago::kernels::cuda {
namespace {

constexpr AttentionShape kShapes[] = {
    {1, 2, 1, 8, true}, {2, 37, 3, 64, true}, {4, 1024, 12, 64, true}, {2, 197, 6, 128, false}};
constexpr PatchShape kPatchShapes[] = {
    {.B = 2, .channels = 1, .side = 28, .patch = 7, .O = 64},
    {.B = 32, .channels = 3, .side = 224, .patch = 16, .O = 768},
};

class DnnGraphs : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(DnnGraphs, AttentionIsValidToCudnn) {
  for (const AttentionShape& shape : kShapes) {
    auto forward = forward_graph(shape)->validate();
    EXPECT_TRUE(forward.is_good()) << forward.get_message();
    for (const bool deterministic : {false, true}) {
      auto backward = backward_graph(shape, deterministic)->validate();
      EXPECT_TRUE(backward.is_good()) << backward.get_message();
    }
  }
}

TEST_F(DnnGraphs, PatchEmbeddingsAreValidToCudnn) {
  for (const PatchShape& shape : kPatchShapes) {
    for (const DnnGraph& graph : {patch_forward_graph(shape), patch_backward_graph(shape)}) {
      auto error = graph->validate();
      EXPECT_TRUE(error.is_good()) << error.get_message();
    }
  }
}

TEST_F(DnnGraphs, AWrongShapeWouldBeSeen) {
  EXPECT_TRUE(forward_graph({0, 4, 1, 8, true})->validate().is_bad() ||
              forward_graph({1, 4, 1, 7, true})->validate().is_bad());
}

}  // namespace
}  // namespace archipelago::kernels::cuda
