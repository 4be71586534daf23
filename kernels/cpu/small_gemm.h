#pragma once

#include <cstdint>

// Matrix products on blocks that fit into the first-level caches, where a library's packing would
// cost more than the product.

namespace archipelago::kernels {

// A block of numbers at any strides: element (i, j) is data[i * row + j * column].
struct Strided {
  const float* data;
  std::int64_t row;
  std::int64_t column;
};

// c[m, n] = a[m, k] b[k, n] (+ c when `add`), n a multiple of kLanes, b and c row-major with row
// strides ldb and ldc.
void small_gemm(float* c, std::int64_t ldc, Strided a, const float* b, std::int64_t ldb, bool add,
                std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace archipelago::kernels
