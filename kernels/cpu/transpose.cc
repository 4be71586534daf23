#include "kernels/cpu/transpose.h"

#include <utility>

#include "kernels/cpu/vector.h"

namespace archipelago::kernels {
namespace {

// The first (Half = 0) or second half of a0 b0 a1 b1 ...
template <int Half, int... Lane>
Vector interleave(const Vector& a, const Vector& b, std::integer_sequence<int, Lane...>) {
  constexpr int kCount = static_cast<int>(kLanes);
  return __builtin_shufflevector(a, b, (Half * kCount / 2 + Lane / 2 + Lane % 2 * kCount)...);
}

// A square of kLanes x kLanes in registers: each perfect shuffle of the rows turns the index of an
// element by one bit, and log2(kLanes) of them swap its row and column.
void transpose_tile(float* to, std::int64_t to_stride, const float* from,
                    std::int64_t from_stride) {
  constexpr auto kAllLanes = std::make_integer_sequence<int, static_cast<int>(kLanes)>();
  Vector rows[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = load(from + i * from_stride);
  for (std::int64_t turn = 1; turn < kLanes; turn *= 2) {
    Vector shuffled[kLanes];
    for (std::int64_t i = 0; i < kLanes / 2; ++i) {
      shuffled[2 * i] = interleave<0>(rows[i], rows[i + kLanes / 2], kAllLanes);
      shuffled[2 * i + 1] = interleave<1>(rows[i], rows[i + kLanes / 2], kAllLanes);
    }
    for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = shuffled[i];
  }
  for (std::int64_t i = 0; i < kLanes; ++i) store(to + i * to_stride, rows[i]);
}

}  // namespace

void transpose(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride,
               std::int64_t rows, std::int64_t columns) {
  const std::int64_t whole_rows = rows / kLanes * kLanes;
  const std::int64_t whole_columns = columns / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole_rows; i += kLanes) {
    for (std::int64_t j = 0; j < whole_columns; j += kLanes) {
      transpose_tile(to + j * to_stride + i, to_stride, from + i * from_stride + j, from_stride);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      to[j * to_stride + i] = from[i * from_stride + j];
    }
  }
}

}  // namespace archipelago::kernels
