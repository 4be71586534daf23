#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/cpu/vector_math.h"

namespace archipelago::kernels {
namespace {

constexpr std::int64_t kQueryBlock = 32;
constexpr std::int64_t kKeyBlock = 128;

// The sizes of one head's blocks, padded to whole vectors.
struct HeadShape {
  std::int64_t T, D, padded_T, padded_D;
  HeadShape(std::int64_t positions, std::int64_t width)
      : T(positions), D(width), padded_T(padded(positions)), padded_D(padded(width)) {}
  std::int64_t rows_size() const { return padded_T * padded_D; }
};

// to[T, padded_D] = factor * from[T, D] at row stride `stride`, zero in the padding.
void pack_rows(float* to, const float* from, std::int64_t stride, float factor,
               const HeadShape& shape) {
  for (std::int64_t t = 0; t < shape.T; ++t) {
    float* out = to + t * shape.padded_D;
    const float* in = from + t * stride;
#pragma omp simd
    for (std::int64_t d = 0; d < shape.D; ++d) out[d] = factor * in[d];
    std::fill(out + shape.D, out + shape.padded_D, 0.0F);
  }
}

// to[D, padded_T] = the transpose of from[T, D], zero in the padding.
void pack_transposed(float* to, const float* from, std::int64_t stride, const HeadShape& shape) {
  for (std::int64_t t = 0; t < shape.T; ++t) {
    for (std::int64_t d = 0; d < shape.D; ++d) to[d * shape.padded_T + t] = from[t * stride + d];
  }
  for (std::int64_t d = 0; d < shape.D; ++d) {
    std::fill(to + d * shape.padded_T + shape.T, to + (d + 1) * shape.padded_T, 0.0F);
  }
}

void unpack_rows(float* to, std::int64_t stride, const float* from, float factor,
                 const HeadShape& shape) {
  for (std::int64_t t = 0; t < shape.T; ++t) {
    float* out = to + t * stride;
    const float* in = from + t * shape.padded_D;
#pragma omp simd
    for (std::int64_t d = 0; d < shape.D; ++d) out[d] = factor * in[d];
  }
}

// How many of the keys from `first` on the query at `position` sees, of `width` in the block.
std::int64_t visible(bool causal, std::int64_t position, std::int64_t first, std::int64_t width) {
  return causal ? std::clamp<std::int64_t>(position + 1 - first, 0, width) : width;
}

// Keys that a block of queries ending at `query_end` can see.
std::int64_t key_end(bool causal, std::int64_t query_end, std::int64_t T) {
  return causal ? std::min(query_end, T) : T;
}

// Forward state of one block of queries over the blocks of keys (Dao et al. 2022, Alg. 1, lines
// 9-12).
struct QueryState {
  float largest[kQueryBlock];
  float sum[kQueryBlock];
};

// Turns scores[rows, width] (row stride kKeyBlock) into exp(score - largest) and rescales what
// `out` has of earlier blocks.
void online_softmax(float* scores, float* out, QueryState& state, bool causal, Range queries,
                    std::int64_t first_key, std::int64_t width, std::int64_t padded_D) {
  for (std::int64_t i = 0; i < queries.size(); ++i) {
    float* row = scores + i * kKeyBlock;
    const std::int64_t seen = visible(causal, queries.begin + i, first_key, width);
    float largest = state.largest[i];
#pragma omp simd reduction(max : largest)
    for (std::int64_t j = 0; j < seen; ++j) largest = row[j] > largest ? row[j] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < seen; ++j) {
      row[j] = exponential(row[j] - largest);
      sum += row[j];
    }
    std::fill(row + seen, row + width, 0.0F);
    if (first_key == 0) {
      state.sum[i] = sum;
    } else {
      const float shrink = exponential(state.largest[i] - largest);
      state.sum[i] = state.sum[i] * shrink + sum;
      float* out_row = out + i * padded_D;
#pragma omp simd
      for (std::int64_t d = 0; d < padded_D; ++d) out_row[d] *= shrink;
    }
    state.largest[i] = largest;
  }
}

// One head forward. `scratch` holds 4 blocks of rows_size() and the scores.
void head_forward(float* out, float* log_sum, const float* qkv, bool causal, std::int64_t C,
                  const HeadShape& shape, float* scratch) {
  const std::int64_t stride = 3 * C;
  float* q = scratch;
  float* k_transposed = q + shape.rows_size();
  float* v = k_transposed + shape.rows_size();
  float* result = v + shape.rows_size();
  float* scores = result + shape.rows_size();
  pack_rows(q, qkv, stride, 1.0F / std::sqrt(static_cast<float>(shape.D)), shape);
  pack_transposed(k_transposed, qkv + C, stride, shape);
  pack_rows(v, qkv + 2 * C, stride, 1.0F, shape);

  for (std::int64_t t = 0; t < shape.T; t += kQueryBlock) {
    const Range queries{t, std::min(t + kQueryBlock, shape.T)};
    QueryState state;
    std::fill_n(state.largest, kQueryBlock, -std::numeric_limits<float>::infinity());
    float* block = result + t * shape.padded_D;
    const std::int64_t keys = key_end(causal, queries.end, shape.T);
    for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
      const std::int64_t width = std::min(kKeyBlock, keys - first);
      small_gemm(scores, kKeyBlock, {q + t * shape.padded_D, shape.padded_D, 1},
                 k_transposed + first, shape.padded_T, false, queries.size(), padded(width),
                 shape.D);
      online_softmax(scores, block, state, causal, queries, first, width, shape.padded_D);
      small_gemm(block, shape.padded_D, {scores, kKeyBlock, 1}, v + first * shape.padded_D,
                 shape.padded_D, first > 0, queries.size(), shape.padded_D, width);
    }
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      const float share = 1.0F / state.sum[i];
      const float* in = block + i * shape.padded_D;
      float* to = out + (t + i) * C;
#pragma omp simd
      for (std::int64_t d = 0; d < shape.D; ++d) to[d] = in[d] * share;
      log_sum[t + i] = state.largest[i] + std::log(state.sum[i]);
    }
  }
}

// Turns scores[rows, width] into probabilities and d_probabilities into d_scores, in place.
void softmax_backward(float* scores, float* d_scores, const float* log_sum, const float* delta,
                      bool causal, Range queries, std::int64_t first_key, std::int64_t width) {
  for (std::int64_t i = 0; i < queries.size(); ++i) {
    float* p = scores + i * kKeyBlock;
    float* d = d_scores + i * kKeyBlock;
    const std::int64_t seen = visible(causal, queries.begin + i, first_key, width);
    const float log_total = log_sum[queries.begin + i];
    const float shift = delta[queries.begin + i];
#pragma omp simd
    for (std::int64_t j = 0; j < seen; ++j) {
      p[j] = exponential(p[j] - log_total);
      d[j] = p[j] * (d[j] - shift);
    }
    std::fill(p + seen, p + width, 0.0F);
    std::fill(d + seen, d + width, 0.0F);
  }
}

struct BackwardScratch {
  float *q, *k, *k_transposed, *v_transposed, *d_out, *d_q, *d_k, *d_v, *scores, *d_scores, *delta;

  BackwardScratch(float* memory, const HeadShape& shape) {
    float** blocks[] = {&q, &k, &k_transposed, &v_transposed, &d_out, &d_q, &d_k, &d_v};
    for (float** block : blocks) {
      *block = memory;
      memory += shape.rows_size();
    }
    scores = memory;
    d_scores = scores + kQueryBlock * kKeyBlock;
    delta = d_scores + kQueryBlock * kKeyBlock;
  }

  static std::int64_t size(const HeadShape& shape) {
    return 8 * shape.rows_size() + 2 * kQueryBlock * kKeyBlock + shape.padded_T;
  }
};

// One head backward (Dao et al. 2022, Alg. 4; delta is its D).
void head_backward(float* d_qkv, const float* d_out, const float* out, const float* log_sum,
                   const float* qkv, bool causal, std::int64_t C, const HeadShape& shape,
                   const BackwardScratch& s) {
  const std::int64_t stride = 3 * C;
  const std::int64_t width_D = shape.padded_D;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.D));
  pack_rows(s.q, qkv, stride, scale, shape);
  pack_rows(s.k, qkv + C, stride, 1.0F, shape);
  pack_transposed(s.k_transposed, qkv + C, stride, shape);
  pack_transposed(s.v_transposed, qkv + 2 * C, stride, shape);
  pack_rows(s.d_out, d_out, C, 1.0F, shape);
  std::fill_n(s.d_k, shape.rows_size(), 0.0F);
  std::fill_n(s.d_v, shape.rows_size(), 0.0F);
  for (std::int64_t t = 0; t < shape.T; ++t) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t d = 0; d < shape.D; ++d) dot += d_out[t * C + d] * out[t * C + d];
    s.delta[t] = dot;
  }

  for (std::int64_t t = 0; t < shape.T; t += kQueryBlock) {
    const Range queries{t, std::min(t + kQueryBlock, shape.T)};
    const float* q = s.q + t * width_D;
    const float* d_o = s.d_out + t * width_D;
    const std::int64_t keys = key_end(causal, queries.end, shape.T);
    for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
      const std::int64_t width = std::min(kKeyBlock, keys - first);
      small_gemm(s.scores, kKeyBlock, {q, width_D, 1}, s.k_transposed + first, shape.padded_T,
                 false, queries.size(), padded(width), shape.D);
      small_gemm(s.d_scores, kKeyBlock, {d_o, width_D, 1}, s.v_transposed + first, shape.padded_T,
                 false, queries.size(), padded(width), shape.D);
      softmax_backward(s.scores, s.d_scores, log_sum, s.delta, causal, queries, first, width);
      small_gemm(s.d_v + first * width_D, width_D, {s.scores, 1, kKeyBlock}, d_o, width_D, true,
                 width, width_D, queries.size());
      small_gemm(s.d_k + first * width_D, width_D, {s.d_scores, 1, kKeyBlock}, q, width_D, true,
                 width, width_D, queries.size());
      small_gemm(s.d_q + t * width_D, width_D, {s.d_scores, kKeyBlock, 1}, s.k + first * width_D,
                 width_D, first > 0, queries.size(), width_D, width);
    }
  }
  unpack_rows(d_qkv, stride, s.d_q, scale, shape);
  unpack_rows(d_qkv + C, stride, s.d_k, 1.0F, shape);
  unpack_rows(d_qkv + 2 * C, stride, s.d_v, 1.0F, shape);
}

}  // namespace

void CpuKernels::attention_forward(float* out, float* log_sum, const float* qkv, bool causal,
                                   std::int64_t B, std::int64_t T, std::int64_t C,
                                   std::int64_t NH) {
  const HeadShape shape(T, C / NH);
  reserve_scratch(4 * shape.rows_size() + kQueryBlock * kKeyBlock);
  parallel_ranges(threads_, B * NH, 1, [&](int thread, Range heads) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t row = head / NH * T;
      const std::int64_t column = head % NH * shape.D;
      head_forward(out + row * C + column, log_sum + head * T, qkv + row * 3 * C + column, causal,
                   C, shape, scratch_[thread].data());
    }
  });
}

void CpuKernels::attention_backward(float* d_qkv, const float* d_out, const float* out,
                                    const float* log_sum, const float* qkv, bool causal,
                                    std::int64_t B, std::int64_t T, std::int64_t C,
                                    std::int64_t NH) {
  const HeadShape shape(T, C / NH);
  reserve_scratch(BackwardScratch::size(shape));
  parallel_ranges(threads_, B * NH, 1, [&](int thread, Range heads) {
    const BackwardScratch scratch(scratch_[thread].data(), shape);
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t row = head / NH * T;
      const std::int64_t column = head % NH * shape.D;
      head_backward(d_qkv + row * 3 * C + column, d_out + row * C + column, out + row * C + column,
                    log_sum + head * T, qkv + row * 3 * C + column, causal, C, shape, scratch);
    }
  });
}

}  // namespace archipelago::kernels
