#include "kernels/cuda/cuda_kernels.h"

// The patch embedding by cuDNN's convolution over bf16 copies where it has a plan, else by cutting
// patches and one product.

namespace archipelago::kernels {
namespace {

// What stands behind so many bf16 is as aligned as they are.
std::int64_t padded(std::int64_t count) { return (count + 7) / 8 * 8; }

}  // namespace

void CudaKernels::patch_embedding_forward(float* y, float* patches, const float* images,
                                          const float* weight, const float* bias,
                                          const PatchShape& shape) {
  if (patch_convolution_ != nullptr) {
    const std::int64_t weights = padded(shape.I() * shape.O);
    auto* images_narrow = left_.reserve<__nv_bfloat16>(shape.pixels());
    auto* filter = right_.reserve<__nv_bfloat16>(weights + shape.outputs());
    __nv_bfloat16* y_narrow = filter + weights;
    narrow_images(images_narrow, images, shape);
    narrow_filter(filter, weight, shape);
    if (patch_convolution_->forward(shape, y_narrow, images_narrow, filter)) {
      widen_with_bias(y, y_narrow, bias, shape);
      return;
    }
  }
  cut_patches(patches, images, shape);
  linear_forward(y, patches, weight, bias, nullptr, shape.R(), shape.I(), shape.O);
}

void CudaKernels::patch_embedding_backward(float* d_weight, float* d_bias, float* patches,
                                           const float* images, const float* d_y,
                                           const PatchShape& shape) {
  if (patch_convolution_ != nullptr) {
    const std::int64_t outputs = padded(shape.outputs());
    auto* images_narrow = left_.reserve<__nv_bfloat16>(shape.pixels());
    auto* d_y_narrow = right_.reserve<__nv_bfloat16>(outputs + shape.I() * shape.O);
    __nv_bfloat16* d_filter = d_y_narrow + outputs;
    narrow_images(images_narrow, images, shape);
    narrow(d_y_narrow, d_y, shape.outputs());
    if (patch_convolution_->backward(shape, d_filter, images_narrow, d_y_narrow)) {
      add_filter(d_weight, d_filter, shape);
      add_column_sums(d_bias, d_y, shape.R(), shape.O);
      return;
    }
  }
  cut_patches(patches, images, shape);
  linear_backward_weight(d_weight, d_bias, patches, d_y, shape.R(), shape.I(), shape.O);
}

}  // namespace archipelago::kernels
