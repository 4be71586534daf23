#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/reduction.h"

namespace archipelago::kernels {
namespace {

// The experts of the K largest logits, the largest first; of equals the lower index.
void choose(std::int32_t* chosen, const float* logits, std::int64_t E, std::int64_t K) {
  for (std::int64_t k = 0; k < K; ++k) {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < E; ++e) {
      const bool taken = std::find(chosen, chosen + k, e) != chosen + k;
      if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
    }
    chosen[k] = best;
  }
}

}  // namespace

void CpuKernels::route_forward(float* probabilities, float* log_sum, std::int32_t* chosen,
                               float* gates, std::int64_t R, std::int64_t E, std::int64_t K) {
  parallel_ranges(threads_, R, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      float* row = probabilities + r * E;
      std::int32_t* picked = chosen + r * K;
      choose(picked, row, E, K);
      const float largest = row[picked[0]];
      float sum = 0;
      for (std::int64_t e = 0; e < E; ++e) sum += row[e] = std::exp(row[e] - largest);
      float picked_sum = 0;
      for (std::int64_t k = 0; k < K; ++k) picked_sum += row[picked[k]];
      for (std::int64_t k = 0; k < K; ++k) gates[r * K + k] = row[picked[k]] / picked_sum;
      for (std::int64_t e = 0; e < E; ++e) row[e] /= sum;
      log_sum[r] = largest + std::log(sum);
    }
  });
}

void CpuKernels::route_backward(float* d_logits, const float* d_gates, const float* probabilities,
                                const float* log_sum, const std::int32_t* chosen,
                                const float* gates, const float* load, float balance_scale,
                                float z_scale, std::int64_t R, std::int64_t E, std::int64_t K) {
  parallel_ranges(threads_, R, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const float* p = probabilities + r * E;
      float* d = d_logits + r * E;
      float mean_load = 0;
      for (std::int64_t e = 0; e < E; ++e) mean_load += p[e] * load[e];
      for (std::int64_t e = 0; e < E; ++e) {
        d[e] = p[e] * (balance_scale * (load[e] - mean_load) + z_scale * log_sum[r]);
      }
      const float* gate = gates + r * K;
      const float* d_gate = d_gates + r * K;
      float mean = 0;
      for (std::int64_t k = 0; k < K; ++k) mean += gate[k] * d_gate[k];
      for (std::int64_t k = 0; k < K; ++k) d[chosen[r * K + k]] += gate[k] * (d_gate[k] - mean);
    }
  });
}

void CpuKernels::group_by_expert(std::int32_t* first, std::int32_t* places, std::int32_t* rows,
                                 float* place_gates, float* load, const std::int32_t* chosen,
                                 const float* gates, std::int64_t R, std::int64_t E,
                                 std::int64_t K) {
  const std::int64_t count = R * K;
  std::fill_n(first, E + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) ++first[chosen[i] + 1];
  for (std::int64_t e = 0; e < E; ++e) {
    load[e] = static_cast<float>(first[e + 1]) / static_cast<float>(count);
    first[e + 1] += first[e];
  }
  next_place_.assign(first, first + E);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t place = next_place_[static_cast<std::size_t>(chosen[i])]++;
    places[i] = place;
    rows[place] = static_cast<std::int32_t>(i / K);
    place_gates[place] = gates[i];
  }
}

void CpuKernels::gather_rows(float* y, const float* x, const std::int32_t* rows,
                             const float* scales, std::int64_t count, std::int64_t C) {
  parallel_ranges(threads_, count, 1, [&](int, Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float* in = x + rows[i] * C;
      float* out = y + i * C;
      const float scale = scales == nullptr ? 1.0F : scales[i];
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) out[c] = scale * in[c];
    }
  });
}

void CpuKernels::scatter_rows(float* x, const float* y, const std::int32_t* rows,
                              std::int64_t count, std::int64_t C) {
  parallel_ranges(threads_, count, 1, [&](int, Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float* in = y + i * C;
      float* out = x + rows[i] * C;
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) out[c] += in[c];
    }
  });
}

void CpuKernels::combine_forward(float* out, const float* in, const float* y,
                                 const std::int32_t* places, const float* gates, std::int64_t R,
                                 std::int64_t C, std::int64_t K) {
  parallel_ranges(threads_, R, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      float* to = out + r * C;
      std::copy_n(in + r * C, C, to);
      for (std::int64_t k = 0; k < K; ++k) {
        const float gate = gates[r * K + k];
        const float* from = y + places[r * K + k] * C;
#pragma omp simd
        for (std::int64_t c = 0; c < C; ++c) to[c] += gate * from[c];
      }
    }
  });
}

void CpuKernels::combine_backward(float* d_gates, const float* d_out, const float* y,
                                  const std::int32_t* places, std::int64_t R, std::int64_t C,
                                  std::int64_t K) {
  parallel_ranges(threads_, R * K, 1, [&](int, Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float* d = d_out + i / K * C;
      const float* from = y + places[i] * C;
      d_gates[i] = dot(d, from, C);
    }
  });
}

}  // namespace archipelago::kernels
