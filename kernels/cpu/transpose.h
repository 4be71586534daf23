#pragma once

#include <cstdint>

namespace archipelago::kernels {

// to[columns, rows] = the transpose of from[rows, columns], at row strides to_stride and
// from_stride.
void transpose(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride,
               std::int64_t rows, std::int64_t columns);

}  // namespace archipelago::kernels
