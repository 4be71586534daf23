#pragma once

#include <memory>
#include <span>

#include "island/averaging.h"
#include "island/nccl_group.h"
#include "kernels/cuda/stream.h"

namespace archipelago::island {

// Averages gradients on a stream of its own, a bucket at a time, beside the backward kernels that
// make the next ones.
class NcclAveraging final : public Averaging {
 public:
  // `compute`: the stream that the gradients come from. Buckets have `bucket` elements or more.
  NcclAveraging(std::unique_ptr<NcclGroup> group, cudaStream_t compute,
                std::size_t bucket = kBucket);

  void ready(std::span<float> tail) override;
  void finish(std::span<float> gradients) override;

 private:
  // 32 MiB: long enough for the links' full speed, short enough that the last one, which nothing
  // hides, is short.
  static constexpr std::size_t kBucket = 8 << 20;

  void send(std::span<float> bucket);

  std::unique_ptr<NcclGroup> group_;
  cudaStream_t compute_;
  std::size_t bucket_;
  kernels::cuda::Stream stream_;
  kernels::cuda::Event made_;      // the bucket's gradients
  kernels::cuda::Event averaged_;  // all buckets
  std::size_t sent_ = 0;           // of this step, from the end
};

}  // namespace archipelago::island
