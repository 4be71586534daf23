#include "island/nccl_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.h"
#include "island/nccl_averaging.h"
#include "kernels/kernels.h"

// NCCL itself: as many ranks, threads here, as there are GPUs, at most two.

namespace archipelago::island {
namespace {

class RealNccl : public testing::Test {
 protected:
  void SetUp() override {
    if (kernels::cuda_devices() == 0) GTEST_SKIP() << kernels::why_no_cuda();
  }

  const int ranks_ = std::min(kernels::cuda_devices(), 2);

  static NcclGroup::Patience patient() {
    return {120, [] {}};
  }

  // Runs `rank` on a thread and a GPU each.
  void on_ranks(const std::function<void(int)>& rank) const {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r) {
      threads.emplace_back([&rank, r] {
        ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
        rank(r);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(&memory_, count * sizeof(float)), cudaSuccess);
  }
  ~DeviceFloats() { cudaFree(memory_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  std::span<float> span() const { return {static_cast<float*>(memory_), count_}; }
  void fill(float first, cudaStream_t stream) const {
    std::vector<float> values;
    for (std::size_t i = 0; i < count_; ++i) values.push_back(first + static_cast<float>(i % 1000));
    EXPECT_EQ(cudaMemcpyAsync(memory_, values.data(), count_ * sizeof(float),
                              cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  std::vector<float> values(cudaStream_t stream) const {
    std::vector<float> values(count_);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), memory_, count_ * sizeof(float),
                              cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

TEST_F(RealNccl, AveragesInBuckets) {
  constexpr std::size_t kCount = 1 << 20;
  const NcclId id = NcclGroup::new_id();
  on_ranks([&](int rank) {
    const kernels::cuda::Stream compute;
    const DeviceFloats gradients(kCount);
    NcclAveraging averaging(std::make_unique<NcclGroup>(id, rank, ranks_, patient()), compute.get(),
                            kCount / 3);
    for (int step = 0; step < 3; ++step) {
      gradients.fill(static_cast<float>(2 * rank), compute.get());
      averaging.ready(gradients.span().last(kCount / 2));
      averaging.finish(gradients.span());
      const auto values = gradients.values(compute.get());
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(values[i], static_cast<float>(i % 1000) + static_cast<float>(ranks_ - 1)) << i;
      }
    }
  });
}

TEST_F(RealNccl, AGroupThatEndsWhileItIsUsedLeavesRoomForAnother) {
  const DeviceFloats memory(1000);
  const kernels::cuda::Stream stream;
  for (int i = 0; i < 3; ++i) {
    NcclGroup group(NcclGroup::new_id(), 0, 1, patient());
    memory.fill(1, stream.get());
    group.all_reduce_mean(memory.span(), stream.get());
  }
  EXPECT_EQ(memory.values(stream.get())[999], 1000);
}

TEST_F(RealNccl, GivesUpOnRanksThatDoNotCome) {
  const NcclId id = NcclGroup::new_id();
  EXPECT_THROW(NcclGroup(id, 0, 2, {1, [] {}}), Error);
}

}  // namespace
}  // namespace archipelago::island
