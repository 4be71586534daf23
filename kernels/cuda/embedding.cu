#include <algorithm>
#include <bit>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"

// The gradient of a token table: the rows of a batch are put in the order of their tokens, then a
// block adds up each token's. The order, and so the bits, are the same in every run.
//
// A token's bucket is what is left of it after the division by a power of two of buckets, about one
// a row; a bucket's entries are its rows. Entries find their bucket in any order, then their place
// in it by comparing with the others of the bucket.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::lane;
using cuda::warp;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kMostScanThreads = 1024;
constexpr std::int64_t kMostBuckets = 1 << 16;
// Of a block that adds up: few warps, since most tokens have few rows.
constexpr int kSumWarps = 4;
constexpr int kSumThreads = kSumWarps * kWarp;
constexpr int kColumns = 8;  // a lane's, a warp apart
constexpr std::int64_t kBlockColumns = kColumns * kWarp;

struct Buckets {
  std::int32_t* first;  // [count + 1] the first entry of each, the last the number of entries
  std::int32_t* given;  // [count] entries that it has been given
  std::int64_t count;

  __device__ std::int64_t of(std::int32_t token) const { return token & (count - 1); }
};

__global__ void count_rows(Buckets buckets, const std::int32_t* tokens, std::int64_t R) {
  for (std::int64_t r = cuda::grid_thread(); r < R; r += cuda::grid_threads()) {
    atomicAdd(buckets.given + buckets.of(tokens[r]), 1);
  }
}

// One block: each thread sums buckets of its own, then adds what the threads before it have.
__global__ void find_first_entries(Buckets buckets) {
  std::int32_t* sums = cuda::shared_memory<std::int32_t>();  // one a thread
  const std::int64_t each = (buckets.count + blockDim.x - 1) / blockDim.x;
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < buckets.count ? begin + each : buckets.count;
  std::int32_t own = 0;
  for (std::int64_t b = begin; b < end; ++b) own += buckets.given[b];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (unsigned int distance = 1; distance < blockDim.x; distance *= 2) {
    const std::int32_t before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  std::int32_t next = sums[threadIdx.x] - own;
  for (std::int64_t b = begin; b < end; ++b) {
    buckets.first[b] = next;
    next += buckets.given[b];
    buckets.given[b] = 0;
  }
  if (threadIdx.x == blockDim.x - 1) buckets.first[buckets.count] = sums[threadIdx.x];
}

__global__ void fill_buckets(std::int32_t* entries, Buckets buckets, const std::int32_t* tokens,
                             std::int64_t R) {
  for (std::int64_t r = cuda::grid_thread(); r < R; r += cuda::grid_threads()) {
    const std::int64_t bucket = buckets.of(tokens[r]);
    const std::int32_t place = atomicAdd(buckets.given + bucket, 1);
    entries[buckets.first[bucket] + place] = static_cast<std::int32_t>(r);
  }
}

// A warp an entry: its place is after those of lower tokens, and of its own token's lower rows.
__global__ void order_buckets(std::int32_t* ordered, const std::int32_t* entries, Buckets buckets,
                              const std::int32_t* tokens, std::int64_t R) {
  const std::int64_t entry = cuda::grid_warp();
  if (entry >= R) return;
  const std::int32_t row = entries[entry];
  const std::int32_t token = tokens[row];
  const std::int64_t bucket = buckets.of(token);
  const std::int32_t begin = buckets.first[bucket];
  const std::int32_t end = buckets.first[bucket + 1];
  std::int32_t before = 0;
  for (std::int32_t i = begin + lane(); i < end; i += kWarp) {
    const std::int32_t other = entries[i];
    const std::int32_t others = tokens[other];
    before += others < token || (others == token && other < row) ? 1 : 0;
  }
  before = cuda::warp_sum(before);
  if (lane() == 0) ordered[begin + before] = row;
}

// A block an entry, which adds up the rows of its token if it is the first of them, for
// kBlockColumns columns: warps take a warp's width of entries in turn.
__global__ void add_token_gradients(float* d_token_table, const std::int32_t* ordered,
                                    const std::int32_t* tokens, const float* d_x, std::int64_t R,
                                    std::int64_t C) {
  float* shared = cuda::shared_memory<float>();  // [kSumWarps, kBlockColumns]
  const std::int64_t begin = blockIdx.x;
  const std::int32_t token = tokens[ordered[begin]];
  if (begin > 0 && tokens[ordered[begin - 1]] == token) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kBlockColumns;
  float sums[kColumns] = {};
  int count = kWarp;
  for (std::int64_t i = begin + warp() * kWarp; count == kWarp; i += kSumThreads) {
    const std::int32_t own = i + lane() < R ? ordered[i + lane()] : 0;
    const bool is_same = i + lane() < R && tokens[own] == token;
    count = __popc(__ballot_sync(cuda::kWholeWarp, is_same));
    for (int entry = 0; entry < count; ++entry) {
      const float* row = d_x + __shfl_sync(cuda::kWholeWarp, own, entry) * C;
      for (int k = 0; k < kColumns; ++k) {
        const std::int64_t c = first + k * kWarp + lane();
        if (c < C) sums[k] += row[c];
      }
    }
  }
  for (int k = 0; k < kColumns; ++k) {
    shared[warp() * kBlockColumns + k * kWarp + lane()] = sums[k];
  }
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < kBlockColumns && first + c < C; c += kSumThreads) {
    float sum = 0;
    for (int w = 0; w < kSumWarps; ++w) sum += shared[w * kBlockColumns + c];
    d_token_table[token * C + first + c] += sum;
  }
}

}  // namespace

const std::int32_t* CudaKernels::order_by_token(const std::int32_t* tokens, std::int64_t R) {
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(R)));
  const std::int64_t count = std::min(rows, kMostBuckets);
  auto* entries = sums_.reserve<std::int32_t>(2 * R + 2 * count + 1);
  std::int32_t* ordered = entries + R;
  const Buckets buckets{.first = ordered + R, .given = ordered + R + count + 1, .count = count};
  const unsigned int blocks = cuda::blocks_up_to(R, kThreads);
  clear(reinterpret_cast<float*>(buckets.given), count);
  cuda::launch(stream(), "counting tokens", count_rows, blocks, kThreads, 0, buckets, tokens, R);
  const auto scanning = static_cast<unsigned int>(std::min(count, kMostScanThreads));
  cuda::launch(stream(), "ordering tokens", find_first_entries, 1, scanning,
               scanning * sizeof(std::int32_t), buckets);
  cuda::launch(stream(), "ordering tokens", fill_buckets, blocks, kThreads, 0, entries, buckets,
               tokens, R);
  cuda::launch(stream(), "ordering tokens", order_buckets, cuda::blocks_for(R, kWarps), kThreads, 0,
               ordered, entries, buckets, tokens, R);
  return ordered;
}

void CudaKernels::embedding_backward(float* d_token_table, float* d_position_table,
                                     const std::int32_t* tokens, const float* d_x, std::int64_t B,
                                     std::int64_t T, std::int64_t C) {
  const std::int64_t R = B * T;
  const std::int32_t* ordered = order_by_token(tokens, R);
  const dim3 grid(static_cast<unsigned int>(R), cuda::blocks_for(C, kBlockColumns));
  cuda::launch(stream(), "embedding_backward", add_token_gradients, grid, kSumThreads,
               kSumWarps * kBlockColumns * sizeof(float), d_token_table, ordered, tokens, d_x, R,
               C);
  add_positions_backward(d_position_table, d_x, B, T, C);
}

}  // namespace archipelago::kernels
