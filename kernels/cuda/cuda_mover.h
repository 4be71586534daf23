#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "kernels/cuda/scratch.h"
#include "kernels/cuda/stream.h"
#include "kernels/mover.h"

namespace archipelago::kernels::cuda {

// Copies over the bus run on a stream of their own; on the kernels' stream there is only what is
// done within the device: encoding, decoding, and copies between the array and staging memory.
class CudaMover final : public Mover {
 public:
  // `compute`: the kernels' stream. `differences`: see Kernels::make_mover().
  CudaMover(cudaStream_t compute, std::optional<Encoding> differences)
      : compute_(compute), differences_(differences) {}
  ~CudaMover() override;

  void take(int fragment, const float* flat, std::span<const Part> ranges, bool sum) override;
  std::shared_ptr<const HostArray> taken() override;
  void put(int fragment, float* flat, std::span<const Part> ranges, Encoding encoding,
           std::span<const std::byte> bytes) override;
  void forget_residuals() override;

 private:
  // What differences of a fragment need.
  struct Kept {
    Scratch base;      // the values that were put last
    Scratch residual;  // of block encodings
    bool has_residual = false;
  };

  void encode_difference(Kept& kept, std::byte* bytes, const float* values, std::int64_t count);

  cudaStream_t compute_;
  std::optional<Encoding> differences_;
  std::map<int, Kept> kept_;  // by fragment
  Stream copies_;
  HostArrayPool out_pool_{make_pinned};
  HostArrayPool in_pool_{make_pinned};
  std::shared_ptr<HostArray> out_;  // on its way
  Scratch out_staging_;
  Scratch in_staging_;
  Scratch values_;  // of a fragment, one range after the other; for the kernels' stream alone
  Event packed_;    // what goes out is in out_staging_
  Event landed_;    // out_ is filled
  Event arrived_;   // what came is in in_staging_
  Event unpacked_;  // in_staging_ is free again

  static std::shared_ptr<HostArray> make_pinned(std::int64_t capacity);
};

}  // namespace archipelago::kernels::cuda
