#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cublasLt.h"

// A cuBLASLt on the processor that computes what it is told from layouts, leading dimensions,
// transposes, epilogues and pointers alone, in double, and throws emulation::Misuse where the
// documentation of the real one forbids the call: sizes that do not fit together, operands whose
// address the chosen algorithm was not promised, an auxiliary matrix or workspace out of line,
// memory outside the device's; an algorithm for bf16 results that may round parts of a sum to bf16.

namespace archipelago::emulation {

// One product as it was asked for, sizes by columns.
struct RecordedProduct {
  std::uint64_t rows, columns, inner;
  cublasOperation_t transpose_a, transpose_b;
  cudaDataType operands, result;
  cublasLtEpilogue_t epilogue;
  float beta;
  std::size_t choice;  // the algorithm, among those that were offered for it
};

// Those since the last call.
std::vector<RecordedProduct> take_products();

// As on a GPU for which there is none: no algorithm for products with this epilogue from now on.
void refuse_epilogue(cublasLtEpilogue_t epilogue, bool refused);

// As many algorithms are offered from now on, each of which takes so many milliseconds or, where
// that is negative, refuses to run. One of 1 ms at first.
void offer_algorithms(const std::vector<double>& milliseconds);

// How often an algorithm was asked for since the last call.
int take_choices();

}  // namespace archipelago::emulation
