#pragma once

#include "kernels/cuda/dnn.h"
#include "kernels/cuda/fused_attention.h"

namespace archipelago::kernels::cuda {

// The tensors of both graphs by cuDNN's unique numbers.
enum AttentionTensor : std::int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOut,
  kLogSum,
  kOutGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
};

// out and log_sum from queries, keys and values; no plan yet.
DnnGraph forward_graph(const AttentionShape& shape);

// The gradients of queries, keys and values; no plan yet.
DnnGraph backward_graph(const AttentionShape& shape, bool deterministic);

}  // namespace archipelago::kernels::cuda
