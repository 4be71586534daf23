#pragma once

#include <cuda_bf16.h>

#include <memory>

#include "kernels/kernels.h"

namespace archipelago::kernels::cuda {

class Dnn;

// cuDNN's convolution of a patch embedding over bf16, one graph a shape, made at its first use.
// Everything has its channels innermost: images[B, side, side, channels], filter[O, patch, patch,
// channels], y[B * T, O]; all of it aligned to 16 bytes.
class PatchConvolution {
 public:
  // `dnn` outlives this. `deterministic`: gradients with the same bits in every run.
  PatchConvolution(Dnn& dnn, bool deterministic);
  ~PatchConvolution();

  // Both queue their work. False where this cuDNN has no plan for the shape on this GPU: then
  // nothing is queued.
  [[nodiscard]] bool forward(const PatchShape& shape, __nv_bfloat16* y, const __nv_bfloat16* images,
                             const __nv_bfloat16* filter);
  [[nodiscard]] bool backward(const PatchShape& shape, __nv_bfloat16* d_filter,
                              const __nv_bfloat16* images, const __nv_bfloat16* d_y);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace archipelago::kernels::cuda
