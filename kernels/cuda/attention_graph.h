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
  kLengths,
};

// out and log_sum from queries, keys and values; no plan yet.
DnnGraph forward_graph(const AttentionShape& shape);

// Whether backward_graph() wants to be told of the sequences' lengths, kLengths, B times T as
// int32. cuDNN's kernels for sm_90 take half a tile beyond the last key for keys of score 0 where
// none is masked, which makes NaNs where a query's own scores are all below -88 (cudnn-frontend,
// pull request 628); with lengths they mask it.
inline bool needs_lengths(const AttentionShape& shape) {
  return !shape.causal && shape.T % 128 == 64;
}

// The gradients of queries, keys and values; no plan yet.
DnnGraph backward_graph(const AttentionShape& shape, bool deterministic);

}  // namespace archipelago::kernels::cuda
