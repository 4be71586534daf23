#include <cmath>
#include <string>

#include "core/error.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"

// Attention in f32 for what cuDNN does not take: f32 products, and head widths of its own. A warp a
// query, and backward a warp a key, go over the other side in blocks of a warp's lanes; each sum
// belongs to one warp, so its order is fixed. Dao et al. 2022, Alg. 1 and 4.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::kWholeWarp;
using cuda::lane;
using cuda::warp_max;
using cuda::warp_sum;

constexpr int kWarps = 4;  // of a block
constexpr int kThreads = kWarps * kWarp;
// Two sums a warp of this width fit into a block's 48 KiB of shared memory.
constexpr std::int64_t kWidestHead = 1520;

struct Shape {
  std::int64_t T;
  std::int64_t C;
  std::int64_t NH;
  std::int64_t D;
  std::int64_t count;  // B * NH * T
  bool causal;
  float scale;
};

// Which query or key this warp has.
struct Place {
  std::int64_t sequence;
  std::int64_t head;
  std::int64_t position;
  __device__ Place(std::int64_t index, const Shape& s)
      : sequence(index / (s.NH * s.T)), head(index / s.T % s.NH), position(index % s.T) {}
};

// Queries, keys or values (0, 1, 2) of a head of a sequence; a position's row is 3 * C apart.
__device__ std::int64_t part_offset(const Place& place, const Shape& s, int part) {
  return place.sequence * s.T * 3 * s.C + part * s.C + place.head * s.D;
}

// The same in an array [B*T, C].
__device__ std::int64_t out_offset(const Place& place, const Shape& s) {
  return place.sequence * s.T * s.C + place.head * s.D;
}

__device__ float dot(const float* a, const float* b, std::int64_t D) {
  float sum = 0;
  for (std::int64_t d = 0; d < D; ++d) sum += a[d] * b[d];
  return sum;
}

// sums[D] += the lanes' factors times their rows, `count` of them at most, which are `stride`
// apart; all lanes call it. `factors` holds one a lane.
__device__ void add_rows(float* sums, float* factors, float factor, const float* rows,
                         std::int64_t stride, std::int64_t count, std::int64_t D) {
  factors[lane()] = factor;
  __syncwarp(kWholeWarp);
  for (int other = 0; other < kWarp && other < count; ++other) {
    for (std::int64_t d = lane(); d < D; d += kWarp) {
      sums[d] += factors[other] * rows[other * stride + d];
    }
  }
  __syncwarp(kWholeWarp);
}

// A warp's part of the shared memory: `sums` arrays of D, and the factors of add_rows().
__host__ __device__ std::int64_t warp_floats(int sums, std::int64_t D) { return sums * D + kWarp; }

__global__ void attention_forward_queries(float* out, float* log_sum, const float* qkv, Shape s) {
  const std::int64_t index = cuda::grid_warp();
  if (index >= s.count) return;
  const Place place(index, s);
  const std::int64_t stride = 3 * s.C;
  const float* query = qkv + part_offset(place, s, 0) + place.position * stride;
  const float* keys = qkv + part_offset(place, s, 1);
  const float* values = qkv + part_offset(place, s, 2);
  float* sums = cuda::shared_memory<float>() + cuda::warp() * warp_floats(1, s.D);
  float* factors = sums + s.D;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) sums[d] = 0;
  float largest = -INFINITY;
  float total = 0;
  const std::int64_t seen = s.causal ? place.position + 1 : s.T;
  for (std::int64_t first = 0; first < seen; first += kWarp) {
    const std::int64_t key = first + lane();
    const float score = key < seen ? dot(query, keys + key * stride, s.D) * s.scale : -INFINITY;
    const float larger = fmaxf(largest, warp_max(score));
    const float weight = expf(score - larger);
    const float shrink = expf(largest - larger);
    total = total * shrink + warp_sum(weight);
    for (std::int64_t d = lane(); d < s.D; d += kWarp) sums[d] *= shrink;
    add_rows(sums, factors, weight, values + first * stride, stride, seen - first, s.D);
    largest = larger;
  }
  float* to = out + out_offset(place, s) + place.position * s.C;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) to[d] = sums[d] / total;
  if (lane() == 0) log_sum[index] = largest + logf(total);
}

// delta[B, NH, T] = d_out . out of each query.
__global__ void attention_deltas(float* delta, const float* d_out, const float* out, Shape s) {
  const std::int64_t index = cuda::grid_warp();
  if (index >= s.count) return;
  const Place place(index, s);
  const std::int64_t row = out_offset(place, s) + place.position * s.C;
  float sum = 0;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) sum += d_out[row + d] * out[row + d];
  sum = warp_sum(sum);
  if (lane() == 0) delta[index] = sum;
}

struct Backward {
  const float* qkv;
  const float* d_out;
  const float* log_sum;
  const float* delta;
};

// A query's weight on a key, and the gradient of their score.
struct Pair {
  float weight;
  float d_score;
};

__device__ Pair pair_of(const Backward& in, const Place& place, const Shape& s, std::int64_t query,
                        std::int64_t key) {
  const std::int64_t stride = 3 * s.C;
  const float* q = in.qkv + part_offset(place, s, 0) + query * stride;
  const float* k = in.qkv + part_offset(place, s, 1) + key * stride;
  const float* v = in.qkv + part_offset(place, s, 2) + key * stride;
  const float* d = in.d_out + out_offset(place, s) + query * s.C;
  const std::int64_t row = (place.sequence * s.NH + place.head) * s.T + query;
  const float weight = expf(dot(q, k, s.D) * s.scale - in.log_sum[row]);
  return {weight, weight * (dot(d, v, s.D) - in.delta[row]) * s.scale};
}

__global__ void attention_backward_queries(float* d_qkv, Backward in, Shape s) {
  const std::int64_t index = cuda::grid_warp();
  if (index >= s.count) return;
  const Place place(index, s);
  const std::int64_t stride = 3 * s.C;
  const float* keys = in.qkv + part_offset(place, s, 1);
  float* sums = cuda::shared_memory<float>() + cuda::warp() * warp_floats(1, s.D);
  float* factors = sums + s.D;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) sums[d] = 0;
  const std::int64_t seen = s.causal ? place.position + 1 : s.T;
  for (std::int64_t first = 0; first < seen; first += kWarp) {
    const std::int64_t key = first + lane();
    const float d_score = key < seen ? pair_of(in, place, s, place.position, key).d_score : 0.0F;
    add_rows(sums, factors, d_score, keys + first * stride, stride, seen - first, s.D);
  }
  float* to = d_qkv + part_offset(place, s, 0) + place.position * stride;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) to[d] = sums[d];
}

__global__ void attention_backward_keys(float* d_qkv, Backward in, Shape s) {
  const std::int64_t index = cuda::grid_warp();
  if (index >= s.count) return;
  const Place place(index, s);
  const std::int64_t stride = 3 * s.C;
  const float* queries = in.qkv + part_offset(place, s, 0);
  const float* d_outs = in.d_out + out_offset(place, s);
  float* key_sums = cuda::shared_memory<float>() + cuda::warp() * warp_floats(2, s.D);
  float* value_sums = key_sums + s.D;
  float* factors = value_sums + s.D;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) key_sums[d] = value_sums[d] = 0;
  for (std::int64_t first = s.causal ? place.position : 0; first < s.T; first += kWarp) {
    const std::int64_t query = first + lane();
    const Pair pair = query < s.T ? pair_of(in, place, s, query, place.position) : Pair{0, 0};
    add_rows(key_sums, factors, pair.d_score, queries + first * stride, stride, s.T - first, s.D);
    add_rows(value_sums, factors, pair.weight, d_outs + first * s.C, s.C, s.T - first, s.D);
  }
  float* to = d_qkv + part_offset(place, s, 1) + place.position * stride;
  for (std::int64_t d = lane(); d < s.D; d += kWarp) {
    to[d] = key_sums[d];
    to[s.C + d] = value_sums[d];
  }
}

Shape shape_of(bool causal, std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t NH) {
  const std::int64_t D = C / NH;
  if (D > kWidestHead) {
    throw Error(ExitCode::configuration,
                "heads of " + std::to_string(D) + " are too wide for a GPU, which takes " +
                    std::to_string(kWidestHead) + "; give more model.heads");
  }
  return {T, C, NH, D, B * NH * T, causal, 1.0F / std::sqrt(static_cast<float>(D))};
}

std::size_t shared_bytes(int sums, std::int64_t D) {
  return static_cast<std::size_t>(kWarps * warp_floats(sums, D)) * sizeof(float);
}

}  // namespace

void CudaKernels::attention_forward_f32(float* out, float* log_sum, const float* qkv, bool causal,
                                        std::int64_t B, std::int64_t T, std::int64_t C,
                                        std::int64_t NH) {
  const Shape s = shape_of(causal, B, T, C, NH);
  cuda::launch(stream(), "attention_forward", attention_forward_queries,
               cuda::blocks_for(s.count, kWarps), kThreads, shared_bytes(1, s.D), out, log_sum, qkv,
               s);
}

void CudaKernels::attention_backward_f32(float* d_qkv, const float* d_out, const float* out,
                                         const float* log_sum, const float* qkv, bool causal,
                                         std::int64_t B, std::int64_t T, std::int64_t C,
                                         std::int64_t NH) {
  const Shape s = shape_of(causal, B, T, C, NH);
  const unsigned int blocks = cuda::blocks_for(s.count, kWarps);
  float* delta = sums_.reserve<float>(s.count);
  const Backward in{qkv, d_out, log_sum, delta};
  cuda::launch(stream(), "attention deltas", attention_deltas, blocks, kThreads, 0, delta, d_out,
               out, s);
  cuda::launch(stream(), "attention_backward", attention_backward_queries, blocks, kThreads,
               shared_bytes(1, s.D), d_qkv, in, s);
  cuda::launch(stream(), "attention_backward", attention_backward_keys, blocks, kThreads,
               shared_bytes(2, s.D), d_qkv, in, s);
}

}  // namespace archipelago::kernels
