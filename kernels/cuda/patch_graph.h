#pragma once

#include "kernels/cuda/dnn.h"
#include "kernels/kernels.h"

namespace archipelago::kernels::cuda {

// The tensors of both graphs by cuDNN's unique numbers, each with the channels innermost: images[B,
// side, side, channels], a filter[O, patch, patch, channels], an output[B, T, O].
enum PatchTensor : std::int64_t { kImages = 1, kFilter, kPatchOut };

// The output from images and filter: a convolution whose windows lie side by side; no plan yet.
DnnGraph patch_forward_graph(const PatchShape& shape);

// The filter's gradient, as kFilter, from the images and the output's gradient, as kPatchOut; no
// plan yet.
DnnGraph patch_backward_graph(const PatchShape& shape);

}  // namespace archipelago::kernels::cuda
