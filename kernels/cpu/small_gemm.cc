#include "kernels/cpu/small_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/vector.h"

namespace archipelago::kernels {
namespace {

// A tile of Rows x (Vectors * kLanes) of c stays in registers over all of k; the loops over it must
// be unrolled for that.
template <int Rows, int Vectors>
void tile(float* c, std::int64_t ldc, Strided a, const float* b, std::int64_t ldb, bool add,
          std::int64_t k) {
  Vector sum[Rows][Vectors];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      sum[i][j] = add ? load(c + i * ldc + j * kLanes) : Vector{};
    }
  }
  for (std::int64_t p = 0; p < k; ++p) {
    Vector right[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) right[j] = load(b + p * ldb + j * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      const float left = a.data[i * a.row + p * a.column];
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) store(c + i * ldc + j * kLanes, sum[i][j]);
  }
}

using Tile = void (*)(float*, std::int64_t, Strided, const float*, std::int64_t, bool,
                      std::int64_t);

template <int Vectors, int... Index>
constexpr auto make_tiles(std::integer_sequence<int, Index...>) {
  return std::array<Tile, sizeof...(Index)>{tile<Index + 1, Vectors>...};
}

// The most rows whose tile fits into the vector registers beside the operands.
template <int Vectors>
constexpr int kMaxRows = std::min(12, (kRegisters - Vectors - 2) / Vectors);

template <int Vectors>
void column_strip(float* c, std::int64_t ldc, Strided a, const float* b, std::int64_t ldb, bool add,
                  std::int64_t m, std::int64_t k) {
  static constexpr auto kTiles =
      make_tiles<Vectors>(std::make_integer_sequence<int, kMaxRows<Vectors>>());
  // As even as they come: 32 rows are 11, 11 and 10, not 12, 12 and 8.
  const std::int64_t strips = (m + kMaxRows<Vectors> - 1) / kMaxRows<Vectors>;
  std::int64_t left = m;
  for (std::int64_t s = strips; s > 0; --s) {
    const std::int64_t rows = (left + s - 1) / s;
    kTiles[rows - 1](c, ldc, a, b, ldb, add, k);
    c += rows * ldc;
    a.data += rows * a.row;
    left -= rows;
  }
}

}  // namespace

void small_gemm(float* c, std::int64_t ldc, Strided a, const float* b, std::int64_t ldb, bool add,
                std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kWidest = kLanes == 16 ? 4 : 2;
  for (std::int64_t j = 0; j < n;) {
    const std::int64_t vectors = std::min(kWidest, (n - j) / kLanes);
    const auto strip = vectors == 4   ? column_strip<4>
                       : vectors == 3 ? column_strip<3>
                       : vectors == 2 ? column_strip<2>
                                      : column_strip<1>;
    strip(c + j, ldc, a, b + j, ldb, add, m, k);
    j += vectors * kLanes;
  }
}

}  // namespace archipelago::kernels
