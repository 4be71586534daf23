#include "emulation.h"

#include <gtest/gtest.h>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/stream.h"

// That the emulation finds the mistakes it is there for.

namespace archipelago::emulation {
namespace {

namespace cuda = kernels::cuda;

class EmulationTest : public testing::Test {
 protected:
  ~EmulationTest() override { set_order(Order::forward); }

  template <typename... Parameters>
  void run(void (*kernel)(Parameters...), unsigned int threads, std::size_t shared,
           std::type_identity_t<Parameters>... arguments) {
    cuda::launch(stream_.get(), "a test's kernel", kernel, 1, threads, shared, arguments...);
    stream_.finish();
  }
  template <typename... Parameters>
  std::string complaint(void (*kernel)(Parameters...), unsigned int threads,
                        std::type_identity_t<Parameters>... arguments) {
    try {
      run(kernel, threads, 4096, arguments...);
    } catch (const Misuse& misuse) {
      return misuse.what();
    }
    return {};
  }

  cuda::Stream stream_;
};

// Numbers on the device.
class Numbers {
 public:
  explicit Numbers(std::size_t count) : count_(count) {
    void* memory = nullptr;
    cudaMalloc(&memory, count * sizeof(float));
    data_ = static_cast<float*>(memory);
  }
  ~Numbers() { cudaFree(data_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  float* data() const { return data_; }
  std::vector<float> now(const cuda::Stream& stream) const {
    std::vector<float> values(count_);
    cudaMemcpyAsync(values.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost,
                    stream.get());
    return values;
  }

 private:
  std::size_t count_;
  float* data_ = nullptr;
};

__global__ void reverse_lanes(float* out) {
  out[threadIdx.x] = __shfl_sync(cuda::kWholeWarp, static_cast<float>(threadIdx.x),
                                 cuda::kWarp - 1 - cuda::lane());
}

TEST_F(EmulationTest, ShufflesGiveEachLaneTheOthersValue) {
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    set_order(order);
    const Numbers out(64);
    run(reverse_lanes, 64, 0, out.data());
    const auto values = out.now(stream_);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i / 32 * 32 + 31 - i % 32);
  }
}

__global__ void sum_through_memory(float* out, bool with_barrier) {
  float* shared = cuda::shared_memory<float>();
  shared[threadIdx.x] = 1;
  if (with_barrier) __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned int i = 0; i < blockDim.x; ++i) sum += shared[i];
  out[0] = sum;
}

TEST_F(EmulationTest, AMissingBarrierShowsInSomeOrder) {
  const Numbers out(1);
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    set_order(order);
    run(sum_through_memory, 96, 96 * sizeof(float), out.data(), true);
    EXPECT_EQ(out.now(stream_)[0], 96);
  }
  set_order(Order::forward);
  run(sum_through_memory, 96, 96 * sizeof(float), out.data(), false);
  EXPECT_TRUE(std::isnan(out.now(stream_)[0]));
}

__global__ void some_stay_away(float*) {
  if (threadIdx.x < 32) __syncthreads();
  if (threadIdx.x >= 32) cuda::warp_sum(1);
}

__global__ void two_barriers(float*) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void lane_is_gone(float*) {
  if (threadIdx.x == 3) return;
  __ballot_sync(cuda::kWholeWarp, true);
}

__global__ void lanes_apart(float*) {
  if (threadIdx.x < 16) {
    __ballot_sync(cuda::kWholeWarp, true);
  } else {
    __ballot_sync(cuda::kWholeWarp, true);
  }
}

__global__ void lane_and_barrier(float*) {
  if (threadIdx.x == 0) {
    __syncthreads();
  } else {
    __ballot_sync(cuda::kWholeWarp, true);
  }
}

__global__ void from_outside(float*) { __shfl_sync(cuda::kWholeWarp, 1, 32); }

__global__ void without_itself(float*) { __shfl_sync(0x1U, 1, 0); }

TEST_F(EmulationTest, NamesWhatThreadsCannotDo) {
  EXPECT_NE(complaint(two_barriers, 64, nullptr).find("different barriers"), std::string::npos);
  EXPECT_NE(complaint(lane_is_gone, 32, nullptr).find("a lane that is gone"), std::string::npos);
  EXPECT_NE(complaint(lane_is_gone, 20, nullptr).find("a lane that is gone"), std::string::npos);
  EXPECT_NE(complaint(lanes_apart, 32, nullptr).find("different operations"), std::string::npos);
  EXPECT_NE(complaint(lane_and_barrier, 32, nullptr).find("stuck"), std::string::npos);
  EXPECT_NE(complaint(from_outside, 32, nullptr).find("outside its mask"), std::string::npos);
  EXPECT_NE(complaint(without_itself, 32, nullptr).find("without its own"), std::string::npos);
  EXPECT_EQ(complaint(some_stay_away, 64, nullptr), "");
}

TEST_F(EmulationTest, RefusesLaunchesThatNoDeviceTakes) {
  const Numbers out(1);
  EXPECT_THROW(run(reverse_lanes, 2048, 0, out.data()), Misuse);
  EXPECT_THROW(run(reverse_lanes, 32, 1 << 20, out.data()), Misuse);
  EXPECT_THROW(cuda::launch(nullptr, "default", reverse_lanes, 1, 32, 0, out.data()), Misuse);
}

__global__ void write_at(float* out, int index) { out[index] = 1; }

TEST_F(EmulationTest, StreamsWaitForEachOtherOnlyWhereTheySaySo) {
  const cuda::Stream other;
  const Numbers out(1);
  cuda::launch(other.get(), "writing", write_at, 1, 1, 0, out.data(), 0);
  EXPECT_TRUE(std::isnan(out.now(stream_)[0]));
  cuda::Event event;
  event.record(other.get());
  event.hold(stream_.get());
  EXPECT_EQ(out.now(stream_)[0], 1);
}

TEST_F(EmulationTest, PinnedMemoryIsReadWhenTheCopyRuns) {
  const Numbers out(1);
  const cuda::PinnedBuffer pinned(1);
  pinned.data()[0] = 1;
  cudaMemcpyAsync(out.data(), pinned.data(), 4, cudaMemcpyHostToDevice, stream_.get());
  pinned.data()[0] = 2;
  EXPECT_EQ(out.now(stream_)[0], 2);
}

#ifdef __SANITIZE_ADDRESS__
__global__ void beyond_shared(float*) { cuda::shared_memory<float>()[1024] = 1; }

TEST_F(EmulationTest, TheSanitizerSeesAccessesOutside) {
  const Numbers out(3);
  EXPECT_DEATH(run(write_at, 1, 0, out.data(), 3), "heap-buffer-overflow");
  EXPECT_DEATH(run(beyond_shared, 1, 4096, nullptr), "heap-buffer-overflow");
  EXPECT_DEATH(out.data()[0] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace archipelago::emulation
