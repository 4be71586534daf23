#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "emulation.h"
#include "fake_nccl.h"
#include "island/nccl_averaging.h"
#include "island/nccl_group.h"
#include "kernels/kernels.h"

// Ranks are threads here, their GPUs emulated, NCCL a fake between them.

namespace archipelago::island {
namespace {

NcclGroup::Patience patient(std::function<void()> check = [] {}) { return {60, std::move(check)}; }

// Runs `rank` on a thread each.
void on_ranks(int size, const std::function<void(int)>& rank) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) threads.emplace_back(rank, r);
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclAveraging, AveragesInBucketsWhatEachRankHasMade) {
  constexpr int kRanks = 3;
  constexpr std::int64_t kCount = 100;
  const NcclId id = NcclGroup::new_id();
  std::vector<std::vector<float>> results(kRanks);
  on_ranks(kRanks, [&](int rank) {
    kernels::cuda::Stream compute;
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, kCount * sizeof(float)), cudaSuccess);
    const std::span<float> gradients(static_cast<float*>(memory), kCount);
    {
      NcclAveraging averaging(std::make_unique<NcclGroup>(id, rank, kRanks, patient()),
                              compute.get(), 30);
      for (int step = 1; step <= 2; ++step) {
        // Ranges of 20, 20, 40, 20 from the end: buckets of 40, 40 and the rest.
        for (const auto& [begin, end] :
             {std::pair(80, 100), std::pair(60, 80), std::pair(20, 60), std::pair(0, 20)}) {
          std::vector<float> made;
          for (int i = begin; i < end; ++i) made.push_back(static_cast<float>(step * (i + rank)));
          const auto range = gradients.subspan(static_cast<std::size_t>(begin), made.size());
          cudaMemcpyAsync(range.data(), made.data(), range.size_bytes(), cudaMemcpyHostToDevice,
                          compute.get());
          averaging.ready(gradients.subspan(static_cast<std::size_t>(begin)));
        }
        averaging.finish(gradients);
      }
    }
    results[static_cast<std::size_t>(rank)].resize(kCount);
    cudaMemcpyAsync(results[static_cast<std::size_t>(rank)].data(), memory, gradients.size_bytes(),
                    cudaMemcpyDeviceToHost, compute.get());
    cudaFree(memory);
  });
  for (const auto& result : results) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(result[i], 2 * (static_cast<float>(i) + 1)) << i;
    }
  }
  const std::vector<std::size_t> order = {40, 40, 20, 40, 40, 20};
  EXPECT_EQ(emulation::collectives(), std::vector(kRanks, order));
  EXPECT_EQ(emulation::living_communicators(), 0);
}

// The message of the Error(try_again) that `act` throws.
template <typename Act>
std::string failure_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::try_again);
    return error.what();
  }
  return "none";
}

TEST(NcclGroup, GivesUpOnRanksThatDoNotComeInTime) {
  const NcclId id = NcclGroup::new_id();
  const auto join = [&] { NcclGroup(id, 0, 2, {0.05, [] {}}); };
  EXPECT_NE(failure_of(join).find("did not come in time"), std::string::npos);
  EXPECT_EQ(emulation::living_communicators(), 0);
}

TEST(NcclGroup, StopsWaitingWhenAMemberIsKnownToBeDead) {
  const NcclId id = NcclGroup::new_id();
  const auto join = [&] {
    NcclGroup(id, 0, 2, patient([] { throw Error(ExitCode::try_again, "a member died"); }));
  };
  EXPECT_EQ(failure_of(join), "a member died");
  EXPECT_EQ(emulation::living_communicators(), 0);
}

TEST(NcclGroup, AbortsOnEveryFailure) {
  NcclGroup group(NcclGroup::new_id(), 0, 1, patient());
  EXPECT_EQ(emulation::living_communicators(), 1);
  emulation::fail_next("async", ncclRemoteError);
  EXPECT_NE(failure_of([&] {
              group.wait([] { return false; }, "waiting");
            }).find("waiting: remote process exited"),
            std::string::npos);
  EXPECT_EQ(emulation::living_communicators(), 0);

  emulation::fail_next("ncclGetUniqueId", ncclUnhandledCudaError);
  EXPECT_NE(failure_of([] { NcclGroup::new_id(); }).find("an island's id"), std::string::npos);
  const NcclId id = NcclGroup::new_id();
  emulation::fail_next("ncclCommInitRankConfig", ncclUnhandledCudaError);
  EXPECT_NE(failure_of([&] { NcclGroup(id, 0, 1, patient()); }).find("joining rank 0"),
            std::string::npos);
  NcclGroup other(id, 0, 1, patient());
  emulation::fail_next("ncclAllReduce", ncclUnhandledCudaError);
  float* nothing = nullptr;
  EXPECT_NE(failure_of([&] {
              other.all_reduce_mean({nothing, 0}, nullptr);
            }).find("gradients"),
            std::string::npos);
}

}  // namespace
}  // namespace archipelago::island
