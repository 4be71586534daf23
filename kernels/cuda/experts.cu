#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"

// Mixture of experts: a warp a row where a row is searched or summed, else a thread an element.

namespace archipelago::kernels {
namespace {

using cuda::kWarp;
using cuda::kWholeWarp;
using cuda::lane;
using cuda::warp;
using cuda::warp_sum;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTallied = 1024;  // threads that look through the choices for one expert

// A logit and its expert; the larger logit wins, of equals the lower expert.
struct Candidate {
  float logit;
  std::int32_t expert;  // -1: none
};

__device__ bool beats(const Candidate& a, const Candidate& b) {
  if (a.expert < 0 || b.expert < 0) return b.expert < 0 && a.expert >= 0;
  return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

// The best candidate of the warp, on every lane.
__device__ Candidate warp_best(Candidate best) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Candidate other{__shfl_xor_sync(kWholeWarp, best.logit, distance),
                          __shfl_xor_sync(kWholeWarp, best.expert, distance)};
    if (beats(other, best)) best = other;
  }
  return best;
}

// The next in order after `last` among the row's logits; a row of NaNs yields none, then expert k.
__device__ std::int32_t choose_next(const float* row, std::int64_t E, const Candidate* last,
                                    std::int64_t k, Candidate& chosen) {
  Candidate best{0, -1};
  for (std::int64_t e = lane(); e < E; e += kWarp) {
    const Candidate here{row[e], static_cast<std::int32_t>(e)};
    if ((last == nullptr || beats(*last, here)) && beats(here, best)) best = here;
  }
  chosen = warp_best(best);
  if (chosen.expert < 0) chosen = {row[k], static_cast<std::int32_t>(k)};
  return chosen.expert;
}

__global__ void route_forward_rows(float* probabilities, float* log_sum, std::int32_t* chosen,
                                   float* gates, std::int64_t R, std::int64_t E, std::int64_t K) {
  const std::int64_t r = cuda::grid_warp();
  if (r >= R) return;
  float* row = probabilities + r * E;
  Candidate last{};
  float largest = 0;
  float picked_sum = 0;
  for (std::int64_t k = 0; k < K; ++k) {
    Candidate next{};
    const std::int32_t expert = choose_next(row, E, k == 0 ? nullptr : &last, k, next);
    last = next;
    if (k == 0) largest = next.logit;
    picked_sum += expf(next.logit - largest);
    if (lane() == 0) {
      chosen[r * K + k] = expert;
      gates[r * K + k] = expf(next.logit - largest);
    }
  }
  // Each lane divides what it has written itself.
  if (lane() == 0) {
    for (std::int64_t k = 0; k < K; ++k) gates[r * K + k] /= picked_sum;
  }
  float sum = 0;
  for (std::int64_t e = lane(); e < E; e += kWarp) sum += expf(row[e] - largest);
  sum = warp_sum(sum);
  for (std::int64_t e = lane(); e < E; e += kWarp) row[e] = expf(row[e] - largest) / sum;
  if (lane() == 0) log_sum[r] = largest + logf(sum);
}

// What a row's gates have to do with each other.
struct Gating {
  const float* d_gates;
  const std::int32_t* chosen;
  const float* gates;
  std::int64_t K;
};

__global__ void route_backward_rows(float* d_logits, Gating gating, const float* probabilities,
                                    const float* log_sum, const float* load, float balance_scale,
                                    float z_scale, std::int64_t R, std::int64_t E) {
  const std::int64_t r = cuda::grid_warp();
  if (r >= R) return;
  const float* p = probabilities + r * E;
  float mean_load = 0;
  for (std::int64_t e = lane(); e < E; e += kWarp) mean_load += p[e] * load[e];
  mean_load = warp_sum(mean_load);
  const std::int64_t first = r * gating.K;
  float mean = 0;
  for (std::int64_t k = 0; k < gating.K; ++k) {
    mean += gating.gates[first + k] * gating.d_gates[first + k];
  }
  for (std::int64_t e = lane(); e < E; e += kWarp) {
    float d = p[e] * (balance_scale * (load[e] - mean_load) + z_scale * log_sum[r]);
    for (std::int64_t k = 0; k < gating.K; ++k) {
      if (gating.chosen[first + k] == e) {
        d += gating.gates[first + k] * (gating.d_gates[first + k] - mean);
      }
    }
    d_logits[r * E + e] = d;
  }
}

// A block an expert: how many of the choices are this expert's, into first[e + 1].
__global__ void count_choices(std::int32_t* first, const std::int32_t* chosen, std::int64_t count) {
  std::int32_t* shared = cuda::shared_memory<std::int32_t>();  // one a warp
  std::int32_t own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kTallied) {
    own += chosen[i] == static_cast<std::int32_t>(blockIdx.x) ? 1 : 0;
  }
  const std::int32_t total = cuda::block_sum(own, shared);
  if (threadIdx.x == 0) first[blockIdx.x + 1] = total;
}

// One thread: counts become first places; there are few experts.
__global__ void first_places(std::int32_t* first, float* load, std::int64_t count, std::int64_t E) {
  first[0] = 0;
  for (std::int64_t e = 0; e < E; ++e) {
    load[e] = static_cast<float>(first[e + 1]) / static_cast<float>(count);
    first[e + 1] += first[e];
  }
}

// A block an expert gives its choices their places in order: each thread's place is that of its
// round's first and the choices of this expert by threads before it.
__global__ void give_places(std::int32_t* places, std::int32_t* rows, float* place_gates,
                            const std::int32_t* first, const std::int32_t* chosen,
                            const float* gates, std::int64_t count, std::int64_t K) {
  std::int32_t* before_warp = cuda::shared_memory<std::int32_t>();  // one a warp
  std::int32_t round_first = first[blockIdx.x];
  for (std::int64_t start = 0; start < count; start += kTallied) {
    const std::int64_t i = start + threadIdx.x;
    const bool own = i < count && chosen[i] == static_cast<std::int32_t>(blockIdx.x);
    const unsigned int owners = __ballot_sync(kWholeWarp, own);
    if (lane() == 0) before_warp[warp()] = __popc(owners);
    __syncthreads();
    std::int32_t place = round_first;
    for (int w = 0; w < kTallied / kWarp; ++w) {
      if (w < warp()) place += before_warp[w];
      round_first += before_warp[w];
    }
    __syncthreads();
    if (!own) continue;
    place += __popc(owners & ((1U << lane()) - 1U));
    places[i] = place;
    rows[place] = static_cast<std::int32_t>(i / K);
    place_gates[place] = gates[i];
  }
}

__global__ void gather_elements(float* y, const float* x, const std::int32_t* rows,
                                const float* scales, std::int64_t count, std::int64_t C) {
  for (std::int64_t i = cuda::grid_thread(); i < count; i += cuda::grid_threads()) {
    const float scale = scales == nullptr ? 1.0F : scales[i / C];
    y[i] = scale * x[rows[i / C] * C + i % C];
  }
}

__global__ void scatter_elements(float* x, const float* y, const std::int32_t* rows,
                                 std::int64_t count, std::int64_t C) {
  for (std::int64_t i = cuda::grid_thread(); i < count; i += cuda::grid_threads()) {
    x[rows[i / C] * C + i % C] += y[i];
  }
}

__global__ void combine_elements(float* out, const float* in, const float* y,
                                 const std::int32_t* places, const float* gates, std::int64_t count,
                                 std::int64_t C, std::int64_t K) {
  for (std::int64_t i = cuda::grid_thread(); i < count; i += cuda::grid_threads()) {
    const std::int64_t r = i / C;
    float sum = in[i];
    for (std::int64_t k = 0; k < K; ++k) {
      sum += gates[r * K + k] * y[places[r * K + k] * C + i % C];
    }
    out[i] = sum;
  }
}

__global__ void combine_backward_rows(float* d_gates, const float* d_out, const float* y,
                                      const std::int32_t* places, std::int64_t count,
                                      std::int64_t C, std::int64_t K) {
  const std::int64_t i = cuda::grid_warp();
  if (i >= count) return;
  const float* d = d_out + i / K * C;
  const float* from = y + places[i] * C;
  float dot = 0;
  for (std::int64_t c = lane(); c < C; c += kWarp) dot += d[c] * from[c];
  dot = warp_sum(dot);
  if (lane() == 0) d_gates[i] = dot;
}

}  // namespace

void CudaKernels::route_forward(float* probabilities, float* log_sum, std::int32_t* chosen,
                                float* gates, std::int64_t R, std::int64_t E, std::int64_t K) {
  cuda::launch(stream(), "route_forward", route_forward_rows, cuda::blocks_for(R, kWarps), kThreads,
               0, probabilities, log_sum, chosen, gates, R, E, K);
}

void CudaKernels::route_backward(float* d_logits, const float* d_gates, const float* probabilities,
                                 const float* log_sum, const std::int32_t* chosen,
                                 const float* gates, const float* load, float balance_scale,
                                 float z_scale, std::int64_t R, std::int64_t E, std::int64_t K) {
  cuda::launch(stream(), "route_backward", route_backward_rows, cuda::blocks_for(R, kWarps),
               kThreads, 0, d_logits, Gating{d_gates, chosen, gates, K}, probabilities, log_sum,
               load, balance_scale, z_scale, R, E);
}

void CudaKernels::group_by_expert(std::int32_t* first, std::int32_t* places, std::int32_t* rows,
                                  float* place_gates, float* load, const std::int32_t* chosen,
                                  const float* gates, std::int64_t R, std::int64_t E,
                                  std::int64_t K) {
  const auto experts = static_cast<unsigned int>(E);
  constexpr std::size_t kShared = kTallied / kWarp * sizeof(std::int32_t);
  cuda::launch(stream(), "counting choices", count_choices, experts, kTallied, kShared, first,
               chosen, R * K);
  cuda::launch(stream(), "first places", first_places, 1, 1, 0, first, load, R * K, E);
  cuda::launch(stream(), "giving places", give_places, experts, kTallied, kShared, places, rows,
               place_gates, first, chosen, gates, R * K, K);
}

void CudaKernels::gather_rows(float* y, const float* x, const std::int32_t* rows,
                              const float* scales, std::int64_t count, std::int64_t C) {
  cuda::launch(stream(), "gather_rows", gather_elements, cuda::blocks_for(count * C, kThreads),
               kThreads, 0, y, x, rows, scales, count * C, C);
}

void CudaKernels::scatter_rows(float* x, const float* y, const std::int32_t* rows,
                               std::int64_t count, std::int64_t C) {
  cuda::launch(stream(), "scatter_rows", scatter_elements, cuda::blocks_for(count * C, kThreads),
               kThreads, 0, x, y, rows, count * C, C);
}

void CudaKernels::combine_forward(float* out, const float* in, const float* y,
                                  const std::int32_t* places, const float* gates, std::int64_t R,
                                  std::int64_t C, std::int64_t K) {
  cuda::launch(stream(), "combine_forward", combine_elements, cuda::blocks_for(R * C, kThreads),
               kThreads, 0, out, in, y, places, gates, R * C, C, K);
}

void CudaKernels::combine_backward(float* d_gates, const float* d_out, const float* y,
                                   const std::int32_t* places, std::int64_t R, std::int64_t C,
                                   std::int64_t K) {
  cuda::launch(stream(), "combine_backward", combine_backward_rows, cuda::blocks_for(R * K, kWarps),
               kThreads, 0, d_gates, d_out, y, places, R * K, C, K);
}

}  // namespace archipelago::kernels
