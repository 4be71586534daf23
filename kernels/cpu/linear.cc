#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/vector_math.h"

namespace archipelago::kernels {
namespace {

// Rows that go through a fused linear map together: few enough that a block stays in the cache
// between its passes, many enough that packing the weights again costs little.
constexpr std::int64_t kRowBlock = 256;

template <class Body>
void row_blocks(int threads, std::int64_t rows, const Body& body) {
  parallel_ranges(threads, rows, 16, [&](int, Range range) {
    for (std::int64_t r = range.begin; r < range.end; r += kRowBlock) {
      body(r, std::min(kRowBlock, range.end - r));
    }
  });
}

}  // namespace

void CpuKernels::linear_forward(Numbers to, ConstNumbers from, const float* weight,
                                const float* bias, const float* residual, std::int64_t R,
                                std::int64_t I, std::int64_t O) {
  float* const y = to.f32();
  const float* const x = from.f32();
  row_blocks(threads_, R, [&](std::int64_t first, std::int64_t rows) {
    gemm(y + first * O, O, x + first * I, I, weight, O, Transpose::neither, false, rows, O, I);
    for (std::int64_t r = first; r < first + rows; ++r) {
      float* out = y + r * O;
      if (residual == nullptr) {
#pragma omp simd
        for (std::int64_t o = 0; o < O; ++o) out[o] += bias[o];
      } else {
        const float* in = residual + r * O;
#pragma omp simd
        for (std::int64_t o = 0; o < O; ++o) out[o] += in[o] + bias[o];
      }
    }
  });
}

void CpuKernels::linear_gelu_forward(Numbers to, Numbers sums, ConstNumbers from,
                                     const float* weight, const float* bias, std::int64_t R,
                                     std::int64_t I, std::int64_t O) {
  float* const act = to.f32();
  float* const pre = sums.f32();
  const float* const x = from.f32();
  row_blocks(threads_, R, [&](std::int64_t first, std::int64_t rows) {
    gemm(pre + first * O, O, x + first * I, I, weight, O, Transpose::neither, false, rows, O, I);
    for (std::int64_t r = first; r < first + rows; ++r) {
      float* in = pre + r * O;
      float* out = act + r * O;
      over_lanes(O, [&]<class Float>(std::int64_t o) {
        const Float u = load<Float>(in + o) + load<Float>(bias + o);
        store(in + o, u);
        store(out + o, gelu(u));
      });
    }
  });
}

void CpuKernels::gelu_backward(Numbers gradient, Numbers sums, std::int64_t count) {
  float* const d_act = gradient.f32();
  float* const pre = sums.f32();
  parallel_ranges(threads_, count, 16, [&](int, Range range) {
    float* activations = pre + range.begin;
    float* slopes = d_act + range.begin;
    over_lanes(range.size(), [&]<class Float>(std::int64_t i) {
      const Float u = load<Float>(activations + i);
      const Float s = gelu_gate(u);
      const Float act = u * s;
      const Float d = load<Float>(slopes + i) * (s + act * (1.0F - s) * gelu_gate_slope(u));
      store(activations + i, act);
      store(slopes + i, d);
    });
  });
}

// The product with a transposed right side is slower than turning the weights once, where the rows
// are many.
void CpuKernels::linear_backward_input(Numbers d_x, ConstNumbers d_y, const float* weight,
                                       std::int64_t R, std::int64_t I, std::int64_t O) {
  if (R < kRowBlock) {
    matmul(d_x, d_y, weight, Transpose::right, false, R, I, O);
    return;
  }
  turned_weight_.reserve(*this, I * O);
  parallel_ranges(threads_, I, 16, [&](int, Range range) {
    transpose(turned_weight_.data() + range.begin, I, weight + range.begin * O, O, range.size(), O);
  });
  matmul(d_x, d_y, turned_weight_.data(), Transpose::neither, false, R, I, O);
}

void CpuKernels::linear_gelu_backward_input(Numbers d_pre, ConstNumbers d_y, const float* weight,
                                            ConstNumbers pre, std::int64_t R, std::int64_t I,
                                            std::int64_t O) {
  linear_backward_input(d_pre, d_y, weight, R, I, O);
  std::vector<float> sums(pre.f32(), pre.f32() + R * I);
  gelu_backward(d_pre, sums.data(), R * I);
}

void CpuKernels::linear_backward_weight(float* d_weight, float* d_bias, ConstNumbers x,
                                        ConstNumbers gradient, std::int64_t R, std::int64_t I,
                                        std::int64_t O) {
  const float* const d_y = gradient.f32();
  matmul(d_weight, x, d_y, Transpose::left, true, I, O, R);
  parallel_ranges(threads_, O, 16, [&](int, Range range) {
    std::int64_t r = 0;
    for (; r + 4 <= R; r += 4) {
      const float* rows = d_y + r * O;
#pragma omp simd
      for (std::int64_t o = range.begin; o < range.end; ++o) {
        d_bias[o] += (rows[o] + rows[O + o]) + (rows[2 * O + o] + rows[3 * O + o]);
      }
    }
    for (; r < R; ++r) {
#pragma omp simd
      for (std::int64_t o = range.begin; o < range.end; ++o) d_bias[o] += d_y[r * O + o];
    }
  });
}

void CpuKernels::matmul(Numbers to, ConstNumbers left, ConstNumbers right, Transpose transpose,
                        bool add, std::int64_t m, std::int64_t n, std::int64_t k) {
  float* const c = to.f32();
  const float* const a = left.f32();
  const float* const b = right.f32();
  const std::int64_t lda = transpose == Transpose::left ? m : k;
  const std::int64_t ldb = transpose == Transpose::right ? k : n;
  if (m >= n) {
    parallel_ranges(threads_, m, 16, [&](int, Range rows) {
      const float* a_rows = a + (transpose == Transpose::left ? rows.begin : rows.begin * lda);
      gemm(c + rows.begin * n, n, a_rows, lda, b, ldb, transpose, add, rows.size(), n, k);
    });
  } else {
    parallel_ranges(threads_, n, 16, [&](int, Range columns) {
      const float* b_columns =
          b + (transpose == Transpose::right ? columns.begin * ldb : columns.begin);
      gemm(c + columns.begin, n, a, lda, b_columns, ldb, transpose, add, m, columns.size(), k);
    });
  }
}

}  // namespace archipelago::kernels
