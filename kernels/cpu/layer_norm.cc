#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/reduction.h"

namespace archipelago::kernels {
namespace {

constexpr float kEpsilon = 1e-5F;

void normalize_row(float* y, const float* x, float mean, float rstd, const float* weight,
                   const float* bias, std::int64_t C) {
#pragma omp simd
  for (std::int64_t c = 0; c < C; ++c) y[c] = (x[c] - mean) * rstd * weight[c] + bias[c];
}

}  // namespace

void CpuKernels::layer_norm_forward(Numbers to, float* mean, float* rstd, const float* x,
                                    const float* weight, const float* bias, std::int64_t R,
                                    std::int64_t C) {
  float* const y = to.f32();
  parallel_ranges(threads_, R, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = x + r * C;
      const float row_mean =
          sum(C, [&]<class Float>(std::int64_t c) { return load<Float>(in + c); }) /
          static_cast<float>(C);
      const float squares = sum(C, [&]<class Float>(std::int64_t c) {
        const Float centered = load<Float>(in + c) - row_mean;
        return centered * centered;
      });
      const float row_rstd = 1.0F / std::sqrt(squares / static_cast<float>(C) + kEpsilon);
      normalize_row(y + r * C, in, row_mean, row_rstd, weight, bias, C);
      mean[r] = row_mean;
      rstd[r] = row_rstd;
    }
  });
}

void CpuKernels::layer_norm_again(Numbers to, const float* x, const float* mean, const float* rstd,
                                  const float* weight, const float* bias, std::int64_t R,
                                  std::int64_t C) {
  float* const y = to.f32();
  parallel_ranges(threads_, R, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      normalize_row(y + r * C, x + r * C, mean[r], rstd[r], weight, bias, C);
    }
  });
}

ConstNumbers CpuKernels::layer_norm_backward(float* d_x, float* d_weight, float* d_bias,
                                             ConstNumbers gradient, const float* x,
                                             const float* mean, const float* rstd,
                                             const float* weight, float* room, std::int64_t R,
                                             std::int64_t C) {
  const float* const d_y = gradient.f32();
  reserve_scratch(2 * C);
  for (Buffer& sums : scratch_) std::fill_n(sums.data(), 2 * C, 0.0F);
  parallel_ranges(threads_, R, 1, [&](int thread, Range rows) {
    float* weight_sum = scratch_[thread].data();
    float* bias_sum = weight_sum + C;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = x + r * C;
      const float* d_out = d_y + r * C;
      float* d_in = d_x + r * C;
      const float m = mean[r];
      const float s = rstd[r];
      const float d_mean = dot(d_out, weight, C) / static_cast<float>(C);
      const float d_rstd = sum(C, [&]<class Float>(std::int64_t c) {
        return load<Float>(d_out + c) * load<Float>(weight + c) * (load<Float>(in + c) - m);
      });
      const float slope = d_rstd * s / static_cast<float>(C);
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) {
        const float normal = (in[c] - m) * s;
        weight_sum[c] += d_out[c] * normal;
        bias_sum[c] += d_out[c];
        d_in[c] += s * (d_out[c] * weight[c] - d_mean - normal * slope);
      }
    }
  });
  for (const Buffer& sums : scratch_) {
    for (std::int64_t c = 0; c < C; ++c) {
      d_weight[c] += sums.data()[c];
      d_bias[c] += sums.data()[C + c];
    }
  }
  return room != nullptr ? d_x : nullptr;
}

}  // namespace archipelago::kernels
