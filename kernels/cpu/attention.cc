#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/reduction.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/vector.h"
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

// Rows of one head, D wide and readable (or writable) to padded_D.
struct ConstRows {
  const float* data;
  std::int64_t stride;
};
struct Rows {
  float* data;
  std::int64_t stride;
  operator ConstRows() const { return {data, stride}; }
};

// from[T, D] as it is where D is whole vectors, else its copy in `scratch` with zeros as padding.
ConstRows readable(const float* from, std::int64_t stride, float* scratch, const HeadShape& shape) {
  if (shape.D == shape.padded_D) return {from, stride};
  for (std::int64_t t = 0; t < shape.T; ++t) {
    float* out = scratch + t * shape.padded_D;
    std::fill(std::copy_n(from + t * stride, shape.D, out), out + shape.padded_D, 0.0F);
  }
  return {scratch, shape.padded_D};
}

// Where to write what goes to to[T, D]: there, or by way of `scratch`; see deliver().
Rows writable(float* to, std::int64_t stride, float* scratch, const HeadShape& shape) {
  return shape.D == shape.padded_D ? Rows{to, stride} : Rows{scratch, shape.padded_D};
}

void deliver(float* to, std::int64_t stride, ConstRows from, const HeadShape& shape) {
  if (from.data == to) return;
  for (std::int64_t t = 0; t < shape.T; ++t) {
    std::copy_n(from.data + t * from.stride, shape.D, to + t * stride);
  }
}

void clear(Rows rows, const HeadShape& shape) {
  for (std::int64_t t = 0; t < shape.T; ++t) {
    std::fill_n(rows.data + t * rows.stride, shape.padded_D, 0.0F);
  }
}

// to[D, padded_T] = the transpose of from[T, D]; the padding is multiplied but never used.
void transpose_head(float* to, const float* from, std::int64_t stride, const HeadShape& shape) {
  transpose(to, shape.padded_T, from, stride, shape.T, shape.D);
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

// Both softmax loops run over whole vectors and clear what lies beyond the visible keys after it.

// Turns scores[rows, width] (row stride kKeyBlock) into exp(scale * (score - largest)) and rescales
// what `out`, the rows of these queries, has of earlier blocks.
void online_softmax(float* scores, Rows out, QueryState& state, float scale, bool causal,
                    Range queries, std::int64_t first_key, std::int64_t width,
                    std::int64_t padded_D) {
  for (std::int64_t i = 0; i < queries.size(); ++i) {
    float* row = scores + i * kKeyBlock;
    const std::int64_t seen = visible(causal, queries.begin + i, first_key, width);
    const std::int64_t whole = padded(seen);
    std::fill(row + seen, row + whole, -std::numeric_limits<float>::infinity());
    float largest = state.largest[i];
#pragma omp simd reduction(max : largest)
    for (std::int64_t j = 0; j < whole; ++j) largest = row[j] > largest ? row[j] : largest;
    const float total = sum(whole, [&]<class Float>(std::int64_t j) {
      const Float power = exponential<Float>(scale * (load<Float>(row + j) - largest));
      store(row + j, power);
      return power;
    });
    std::fill(row + seen, row + width, 0.0F);
    if (first_key == 0) {
      state.sum[i] = total;
    } else {
      const float shrink = exponential(scale * (state.largest[i] - largest));
      state.sum[i] = state.sum[i] * shrink + total;
      float* out_row = out.data + i * out.stride;
#pragma omp simd
      for (std::int64_t d = 0; d < padded_D; ++d) out_row[d] *= shrink;
    }
    state.largest[i] = largest;
  }
}

float score_scale(const HeadShape& shape) { return 1.0F / std::sqrt(static_cast<float>(shape.D)); }

struct ForwardScratch {
  float *q, *v, *out, *k_transposed, *scores;

  ForwardScratch(float* memory, const HeadShape& shape)
      : q(memory),
        v(q + shape.rows_size()),
        out(v + shape.rows_size()),
        k_transposed(out + shape.rows_size()),
        scores(k_transposed + shape.rows_size()) {}

  static std::int64_t size(const HeadShape& shape) {
    return 4 * shape.rows_size() + kQueryBlock * kKeyBlock;
  }
};

void head_forward(float* out, float* log_sum, const float* qkv, bool causal, std::int64_t C,
                  const HeadShape& shape, const ForwardScratch& s) {
  const std::int64_t stride = 3 * C;
  const float scale = score_scale(shape);
  const ConstRows q = readable(qkv, stride, s.q, shape);
  const ConstRows v = readable(qkv + 2 * C, stride, s.v, shape);
  const Rows result = writable(out, C, s.out, shape);
  transpose_head(s.k_transposed, qkv + C, stride, shape);

  for (std::int64_t t = 0; t < shape.T; t += kQueryBlock) {
    const Range queries{t, std::min(t + kQueryBlock, shape.T)};
    QueryState state;
    std::fill_n(state.largest, kQueryBlock, -std::numeric_limits<float>::infinity());
    const Rows block{result.data + t * result.stride, result.stride};
    const std::int64_t keys = key_end(causal, queries.end, shape.T);
    for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
      const std::int64_t width = std::min(kKeyBlock, keys - first);
      small_gemm(s.scores, kKeyBlock, {q.data + t * q.stride, q.stride, 1}, s.k_transposed + first,
                 shape.padded_T, false, queries.size(), padded(width), shape.D);
      online_softmax(s.scores, block, state, scale, causal, queries, first, width, shape.padded_D);
      small_gemm(block.data, block.stride, {s.scores, kKeyBlock, 1}, v.data + first * v.stride,
                 v.stride, first > 0, queries.size(), shape.padded_D, width);
    }
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      const float share = 1.0F / state.sum[i];
      float* row = block.data + i * block.stride;
#pragma omp simd
      for (std::int64_t d = 0; d < shape.D; ++d) row[d] *= share;
      log_sum[t + i] = scale * state.largest[i] + std::log(state.sum[i]);
    }
  }
  deliver(out, C, result, shape);
}

// Turns scores[rows, width] into probabilities and d_probabilities into d_scores, in place.
void softmax_backward(float* scores, float* d_scores, const float* log_sum, const float* delta,
                      float scale, bool causal, Range queries, std::int64_t first_key,
                      std::int64_t width) {
  for (std::int64_t i = 0; i < queries.size(); ++i) {
    float* p = scores + i * kKeyBlock;
    float* d = d_scores + i * kKeyBlock;
    const std::int64_t seen = visible(causal, queries.begin + i, first_key, width);
    const float log_total = log_sum[queries.begin + i];
    const float shift = delta[queries.begin + i];
    for (std::int64_t j = 0; j < padded(seen); j += kLanes) {
      const Vector probability = exponential<Vector>(scale * load(p + j) - log_total);
      store(p + j, probability);
      store(d + j, scale * probability * (load(d + j) - shift));
    }
    std::fill(p + seen, p + width, 0.0F);
    std::fill(d + seen, d + width, 0.0F);
  }
}

struct BackwardScratch {
  float *q, *k, *d_out, *d_q, *d_k, *d_v, *k_transposed, *v_transposed, *scores, *d_scores, *delta;

  BackwardScratch(float* memory, const HeadShape& shape) {
    for (float** block : {&q, &k, &d_out, &d_q, &d_k, &d_v, &k_transposed, &v_transposed}) {
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

// delta[t] = d_out[t] . out[t], what the softmax's gradient is shifted by.
void find_delta(float* delta, const float* d_out, const float* out, std::int64_t C,
                const HeadShape& shape) {
  for (std::int64_t t = 0; t < shape.T; ++t) {
    delta[t] = dot(d_out + t * C, out + t * C, shape.D);
  }
}

// One head backward (Dao et al. 2022, Alg. 4; delta is its D).
void head_backward(float* d_qkv, const float* d_out, const float* out, const float* log_sum,
                   const float* qkv, bool causal, std::int64_t C, const HeadShape& shape,
                   const BackwardScratch& s) {
  const std::int64_t stride = 3 * C;
  const float scale = score_scale(shape);
  const ConstRows q = readable(qkv, stride, s.q, shape);
  const ConstRows k = readable(qkv + C, stride, s.k, shape);
  const ConstRows d_o = readable(d_out, C, s.d_out, shape);
  const Rows d_q = writable(d_qkv, stride, s.d_q, shape);
  const Rows d_k = writable(d_qkv + C, stride, s.d_k, shape);
  const Rows d_v = writable(d_qkv + 2 * C, stride, s.d_v, shape);
  transpose_head(s.k_transposed, qkv + C, stride, shape);
  transpose_head(s.v_transposed, qkv + 2 * C, stride, shape);
  find_delta(s.delta, d_out, out, C, shape);
  clear(d_k, shape);
  clear(d_v, shape);

  for (std::int64_t t = 0; t < shape.T; t += kQueryBlock) {
    const Range queries{t, std::min(t + kQueryBlock, shape.T)};
    const ConstRows q_block{q.data + t * q.stride, q.stride};
    const ConstRows d_o_block{d_o.data + t * d_o.stride, d_o.stride};
    const std::int64_t keys = key_end(causal, queries.end, shape.T);
    for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
      const std::int64_t width = std::min(kKeyBlock, keys - first);
      small_gemm(s.scores, kKeyBlock, {q_block.data, q_block.stride, 1}, s.k_transposed + first,
                 shape.padded_T, false, queries.size(), padded(width), shape.D);
      small_gemm(s.d_scores, kKeyBlock, {d_o_block.data, d_o_block.stride, 1},
                 s.v_transposed + first, shape.padded_T, false, queries.size(), padded(width),
                 shape.D);
      softmax_backward(s.scores, s.d_scores, log_sum, s.delta, scale, causal, queries, first,
                       width);
      small_gemm(d_v.data + first * d_v.stride, d_v.stride, {s.scores, 1, kKeyBlock},
                 d_o_block.data, d_o_block.stride, true, width, shape.padded_D, queries.size());
      small_gemm(d_k.data + first * d_k.stride, d_k.stride, {s.d_scores, 1, kKeyBlock},
                 q_block.data, q_block.stride, true, width, shape.padded_D, queries.size());
      small_gemm(d_q.data + t * d_q.stride, d_q.stride, {s.d_scores, kKeyBlock, 1},
                 k.data + first * k.stride, k.stride, first > 0, queries.size(), shape.padded_D,
                 width);
    }
  }
  deliver(d_qkv, stride, d_q, shape);
  deliver(d_qkv + C, stride, d_k, shape);
  deliver(d_qkv + 2 * C, stride, d_v, shape);
}

}  // namespace

void CpuKernels::attention_forward(Numbers out, float* log_sum, ConstNumbers qkv, bool causal,
                                   std::int64_t B, std::int64_t T, std::int64_t C,
                                   std::int64_t NH) {
  const HeadShape shape(T, C / NH);
  reserve_scratch(ForwardScratch::size(shape));
  parallel_ranges(threads_, B * NH, 1, [&](int thread, Range heads) {
    const ForwardScratch scratch(scratch_[thread].data(), shape);
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t row = head / NH * T;
      const std::int64_t column = head % NH * shape.D;
      head_forward(out.f32() + row * C + column, log_sum + head * T,
                   qkv.f32() + row * 3 * C + column, causal, C, shape, scratch);
    }
  });
}

void CpuKernels::attention_backward(Numbers d_qkv, ConstNumbers d_out, ConstNumbers out,
                                    const float* log_sum, ConstNumbers qkv, bool causal,
                                    std::int64_t B, std::int64_t T, std::int64_t C,
                                    std::int64_t NH) {
  const HeadShape shape(T, C / NH);
  reserve_scratch(BackwardScratch::size(shape));
  parallel_ranges(threads_, B * NH, 1, [&](int thread, Range heads) {
    const BackwardScratch scratch(scratch_[thread].data(), shape);
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t row = head / NH * T;
      const std::int64_t column = head % NH * shape.D;
      head_backward(d_qkv.f32() + row * 3 * C + column, d_out.f32() + row * C + column,
                    out.f32() + row * C + column, log_sum + head * T,
                    qkv.f32() + row * 3 * C + column, causal, C, shape, scratch);
    }
  });
}

}  // namespace archipelago::kernels
