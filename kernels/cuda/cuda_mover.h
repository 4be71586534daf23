#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "kernels/cuda/scratch.h"
#include "kernels/cuda/stream.h"
#include "kernels/mover.h"

namespace archipelago::kernels::cuda {

// Copies over the bus run on a stream of their own; on the kernels' stream there are only copies
// within the device, between the array and staging memory.
class CudaMover final : public Mover {
 public:
  // `compute`: the kernels' stream.
  explicit CudaMover(cudaStream_t compute) : compute_(compute) {}
  ~CudaMover() override;

  void take(const float* flat, std::span<const Part> ranges, bool sum) override;
  std::shared_ptr<const HostArray> taken() override;
  void put(float* flat, std::span<const Part> ranges, std::span<const float> values) override;

 private:
  cudaStream_t compute_;
  Stream copies_;
  HostArrayPool out_pool_{make_pinned};
  HostArrayPool in_pool_{make_pinned};
  std::shared_ptr<HostArray> out_;  // on its way
  Scratch out_staging_;
  Scratch in_staging_;
  Event packed_;    // the ranges are in out_staging_
  Event landed_;    // out_ is filled
  Event arrived_;   // values are in in_staging_
  Event unpacked_;  // in_staging_ is free again

  static std::shared_ptr<HostArray> make_pinned(std::int64_t count);
};

}  // namespace archipelago::kernels::cuda
