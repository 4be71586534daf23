#include <algorithm>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"

namespace archipelago::kernels {

void CpuKernels::patch_embedding_forward(float* y, float* patches, const float* images,
                                         const float* weight, const float* bias,
                                         const PatchShape& shape) {
  const std::int64_t across = shape.side / shape.patch;
  parallel_ranges(threads_, shape.R(), 1, [&](int, Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const std::int64_t image = i / shape.T();
      const std::int64_t top = i / across % across * shape.patch;
      const std::int64_t left = i % across * shape.patch;
      float* out = patches + i * shape.I();
      for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
        const float* plane = images + (image * shape.channels + channel) * shape.side * shape.side;
        for (std::int64_t row = 0; row < shape.patch; ++row) {
          out = std::copy_n(plane + (top + row) * shape.side + left, shape.patch, out);
        }
      }
    }
  });
  linear_forward(y, patches, weight, bias, nullptr, shape.R(), shape.I(), shape.O);
}

void CpuKernels::patch_embedding_backward(float* d_weight, float* d_bias, float* patches,
                                          const float*, const float* d_y, const PatchShape& shape) {
  linear_backward_weight(d_weight, d_bias, patches, d_y, shape.R(), shape.I(), shape.O);
}

void CpuKernels::add_positions(float* x, const float* table, std::int64_t B, std::int64_t T,
                               std::int64_t C) {
  parallel_ranges(threads_, B, 1, [&](int, Range sequences) {
    for (std::int64_t b = sequences.begin; b < sequences.end; ++b) {
      float* out = x + b * T * C;
#pragma omp simd
      for (std::int64_t i = 0; i < T * C; ++i) out[i] += table[i];
    }
  });
}

void CpuKernels::add_positions_backward(float* d_table, const float* d_x, std::int64_t B,
                                        std::int64_t T, std::int64_t C) {
  parallel_ranges(threads_, T * C, 16, [&](int, Range range) {
    for (std::int64_t b = 0; b < B; ++b) {
      const float* in = d_x + b * T * C;
#pragma omp simd
      for (std::int64_t i = range.begin; i < range.end; ++i) d_table[i] += in[i];
    }
  });
}

void CpuKernels::mean_positions(float* y, const float* x, std::int64_t B, std::int64_t T,
                                std::int64_t C) {
  const float share = 1.0F / static_cast<float>(T);
  parallel_ranges(threads_, B, 1, [&](int, Range sequences) {
    for (std::int64_t b = sequences.begin; b < sequences.end; ++b) {
      float* out = y + b * C;
      std::fill_n(out, C, 0.0F);
      for (std::int64_t t = 0; t < T; ++t) {
        const float* in = x + (b * T + t) * C;
#pragma omp simd
        for (std::int64_t c = 0; c < C; ++c) out[c] += share * in[c];
      }
    }
  });
}

void CpuKernels::mean_positions_backward(float* d_x, const float* d_y, std::int64_t B,
                                         std::int64_t T, std::int64_t C) {
  const float share = 1.0F / static_cast<float>(T);
  parallel_ranges(threads_, B * T, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = d_y + r / T * C;
      float* out = d_x + r * C;
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) out[c] = share * in[c];
    }
  });
}

}  // namespace archipelago::kernels
