#pragma once

#include <cstdint>
#include <vector>

#include "cudnn_frontend.h"

// A cuDNN on the processor that computes attention and convolutions from the graph's dimensions,
// strides and numbers alone, in double, and refuses or throws emulation::Misuse where the real one
// does: a tensor without shape or number, shapes that do not fit, memory outside the device's, a
// graph without a plan.

namespace archipelago::emulation {

struct RecordedAttention {
  bool backward;
  bool deterministic;
  bool causal;
  std::vector<std::int64_t> dim;     // of the queries
  std::vector<std::int64_t> stride;  // of the queries
};

struct RecordedConvolution {
  bool backward;  // for the filter
  bool deterministic;
  std::vector<std::int64_t> image, image_stride;
  std::vector<std::int64_t> filter, filter_stride;
  std::vector<std::int64_t> window_stride;
};

// Graphs run since the last call.
std::vector<RecordedAttention> take_attentions();
std::vector<RecordedConvolution> take_convolutions();

// As with a GPU or version for which there is no plan: building fails from now on.
void refuse_attention(bool refused);
void refuse_convolution(bool refused);

}  // namespace archipelago::emulation
