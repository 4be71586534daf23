#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/reduction.h"
#include "kernels/cpu/vector_math.h"

namespace archipelago::kernels {
namespace {

double squares(const float* x, std::int64_t count) {
  using DoubleVector = double __attribute__((vector_size(kLanes * sizeof(double))));
  DoubleVector sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto values = __builtin_convertvector(load(x + i), DoubleVector);
    sums += values * values;
  }
  double total = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) total += sums[lane];
  for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

}  // namespace

void CpuKernels::embedding_forward(float* x, const std::int32_t* tokens, const float* token_table,
                                   const float* position_table, std::int64_t B, std::int64_t T,
                                   std::int64_t C) {
  parallel_ranges(threads_, B * T, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const float* token = token_table + tokens[r] * C;
      const float* position = position_table + r % T * C;
      float* out = x + r * C;
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) out[c] = token[c] + position[c];
    }
  });
}

// Threads own columns, not rows: two rows may hold the same token.
void CpuKernels::embedding_backward(float* d_token_table, float* d_position_table,
                                    const std::int32_t* tokens, const float* d_x, std::int64_t B,
                                    std::int64_t T, std::int64_t C) {
  parallel_ranges(threads_, C, 16, [&](int, Range columns) {
    for (std::int64_t r = 0; r < B * T; ++r) {
      const float* in = d_x + r * C;
      float* token = d_token_table + tokens[r] * C;
      float* position = d_position_table + r % T * C;
#pragma omp simd
      for (std::int64_t c = columns.begin; c < columns.end; ++c) {
        token[c] += in[c];
        position[c] += in[c];
      }
    }
  });
}

void CpuKernels::cross_entropy(float* losses, Numbers scores, const std::int32_t* targets,
                               float gradient_scale, std::int64_t R, std::int64_t V) {
  float* const logits = scores.f32();
  parallel_ranges(threads_, R, 1, [&](int, Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      float* row = logits + r * V;
      const std::int32_t target = targets[r];
      if (target < 0) {
        losses[r] = 0;
        if (gradient_scale != 0) std::fill_n(row, V, 0.0F);
        continue;
      }
      float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
      for (std::int64_t v = 0; v < V; ++v) largest = row[v] > largest ? row[v] : largest;
      const float target_logit = row[target] - largest;
      const float total = sum(V, [&]<class Float>(std::int64_t v) {
        const Float power = exponential<Float>(load<Float>(row + v) - largest);
        if (gradient_scale != 0) store(row + v, power);
        return power;
      });
      if (gradient_scale != 0) {
        const float scale = gradient_scale / total;
#pragma omp simd
        for (std::int64_t v = 0; v < V; ++v) row[v] *= scale;
        row[target] -= gradient_scale;
      }
      losses[r] = std::log(total) - target_logit;
    }
  });
}

double CpuKernels::sum_of_squares(const float* x, std::int64_t count) {
  reserve_scratch(2);
  parallel_ranges(threads_, count, 16, [&](int thread, Range range) {
    const double sum = squares(x + range.begin, range.size());
    std::memcpy(scratch_[thread].data(), &sum, sizeof sum);
  });
  double total = 0;
  for (int thread = 0; thread < threads_; ++thread) {
    if (part(count, thread, threads_, 16).size() == 0) continue;
    double sum = 0;
    std::memcpy(&sum, scratch_[thread].data(), sizeof sum);
    total += sum;
  }
  return total;
}

void CpuKernels::adamw(float* parameters, float* gradients, float* first_moment,
                       float* second_moment, const AdamWStep& step, std::int64_t count) {
  const auto t = static_cast<double>(step.step);
  const double first_correction = 1.0 - std::pow(static_cast<double>(step.beta1), t);
  const double second_correction = 1.0 - std::pow(static_cast<double>(step.beta2), t);
  const auto rate = static_cast<float>(step.learning_rate / first_correction);
  const auto root_correction = static_cast<float>(1.0 / std::sqrt(second_correction));
  const float keep = 1.0F - step.learning_rate * step.weight_decay;
  parallel_ranges(threads_, count, 16, [&](int, Range range) {
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float g = gradients[i] * step.gradient_scale;
      const float m = step.beta1 * first_moment[i] + (1.0F - step.beta1) * g;
      const float v = step.beta2 * second_moment[i] + (1.0F - step.beta2) * g * g;
      first_moment[i] = m;
      second_moment[i] = v;
      gradients[i] = 0;
      parameters[i] =
          parameters[i] * keep - rate * m / (std::sqrt(v) * root_correction + step.epsilon);
    }
  });
}

void CpuKernels::sgd(float* parameters, float* gradients, float* momentum, const SgdStep& step,
                     std::int64_t count) {
  const float keep = 1.0F - step.learning_rate * step.weight_decay;
  parallel_ranges(threads_, count, 16, [&](int, Range range) {
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float m = step.momentum * momentum[i] + gradients[i] * step.gradient_scale;
      momentum[i] = m;
      gradients[i] = 0;
      parameters[i] = parameters[i] * keep - step.learning_rate * m;
    }
  });
}

}  // namespace archipelago::kernels
