#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"

// What goes in and out of a patch embedding, in the layouts of its two ways of computing it.

namespace archipelago::kernels {
namespace {

using cuda::grid_thread;
using cuda::grid_threads;

constexpr int kThreads = 256;

__global__ void cut_patches_elements(float* patches, const float* images, PatchShape shape,
                                     std::int64_t count) {
  const std::int64_t patch = shape.patch;
  const std::int64_t side = shape.side;
  const std::int64_t across = side / patch;
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const std::int64_t x = i % patch;
    const std::int64_t y = i / patch % patch;
    const std::int64_t channel = i / (patch * patch) % shape.channels;
    const std::int64_t which = i / (patch * patch * shape.channels);
    const std::int64_t image = which / (across * across);
    const std::int64_t top = which / across % across * patch;
    const std::int64_t left = which % across * patch;
    patches[i] = images[((image * shape.channels + channel) * side + top + y) * side + left + x];
  }
}

// out[B, side, side, channels].
__global__ void narrow_images_elements(__nv_bfloat16* out, const float* images, PatchShape shape,
                                       std::int64_t count) {
  const std::int64_t side = shape.side;
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const std::int64_t channel = i % shape.channels;
    const std::int64_t pixel = i / shape.channels % (side * side);
    const std::int64_t image = i / shape.channels / (side * side);
    out[i] = __float2bfloat16(images[(image * shape.channels + channel) * side * side + pixel]);
  }
}

// Where element i of a weight[channels, patch, patch, O] stands in a filter[O, patch, patch,
// channels].
__device__ std::int64_t place_in_filter(const PatchShape& shape, std::int64_t i) {
  const std::int64_t area = shape.patch * shape.patch;
  const std::int64_t o = i % shape.O;
  const std::int64_t pixel = i / shape.O % area;
  const std::int64_t channel = i / shape.O / area;
  return (o * area + pixel) * shape.channels + channel;
}

__global__ void narrow_filter_elements(__nv_bfloat16* filter, const float* weight, PatchShape shape,
                                       std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    filter[place_in_filter(shape, i)] = __float2bfloat16(weight[i]);
  }
}

__global__ void add_filter_elements(float* d_weight, const __nv_bfloat16* d_filter,
                                    PatchShape shape, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    d_weight[i] += __bfloat162float(d_filter[place_in_filter(shape, i)]);
  }
}

__global__ void widen_with_bias_elements(float* y, const __nv_bfloat16* in, const float* bias,
                                         std::int64_t count, std::int64_t O) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    y[i] = __bfloat162float(in[i]) + bias[i % O];
  }
}

}  // namespace

void CudaKernels::cut_patches(float* patches, const float* images, const PatchShape& shape) {
  cuda::launch(stream(), "cutting patches", cut_patches_elements,
               cuda::blocks_up_to(shape.pixels(), kThreads), kThreads, 0, patches, images, shape,
               shape.pixels());
}

void CudaKernels::narrow_images(__nv_bfloat16* out, const float* images, const PatchShape& shape) {
  cuda::launch(stream(), "rounding images to bf16", narrow_images_elements,
               cuda::blocks_up_to(shape.pixels(), kThreads), kThreads, 0, out, images, shape,
               shape.pixels());
}

void CudaKernels::narrow_filter(__nv_bfloat16* filter, const float* weight,
                                const PatchShape& shape) {
  cuda::launch(stream(), "rounding a filter to bf16", narrow_filter_elements,
               cuda::blocks_up_to(shape.I() * shape.O, kThreads), kThreads, 0, filter, weight,
               shape, shape.I() * shape.O);
}

void CudaKernels::add_filter(float* d_weight, const __nv_bfloat16* d_filter,
                             const PatchShape& shape) {
  cuda::launch(stream(), "adding a filter's gradient", add_filter_elements,
               cuda::blocks_up_to(shape.I() * shape.O, kThreads), kThreads, 0, d_weight, d_filter,
               shape, shape.I() * shape.O);
}

void CudaKernels::widen_with_bias(float* y, const __nv_bfloat16* in, const float* bias,
                                  const PatchShape& shape) {
  cuda::launch(stream(), "adding a bias", widen_with_bias_elements,
               cuda::blocks_up_to(shape.outputs(), kThreads), kThreads, 0, y, in, bias,
               shape.outputs(), shape.O);
}

}  // namespace archipelago::kernels
