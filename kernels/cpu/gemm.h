#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace archipelago::kernels {

// c[m, n] = a[m, k] b[k, n] (+ c when `add`) on the calling thread alone, by oneDNN. Row-major with
// row strides lda, ldb, ldc; a transposed operand is stored as a[k, m] or b[n, k].
void gemm(float* c, std::int64_t ldc, const float* a, std::int64_t lda, const float* b,
          std::int64_t ldb, Transpose transpose, bool add, std::int64_t m, std::int64_t n,
          std::int64_t k);

}  // namespace archipelago::kernels
