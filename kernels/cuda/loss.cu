#include <cfloat>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

namespace archipelago::kernels {
namespace {

using cuda::load;
using cuda::store;

// Of a block: as many as a long row keeps busy, so that the rows under way fit a GPU's cache and
// the second look at them finds them there.
constexpr unsigned int kThreads = 128;
constexpr unsigned int kThreadsOfLongRow = 1024;
constexpr std::int64_t kLongRow = 8192;

// exp(x) by the power of two that GPUs have: of x up to 0, off by a share of 2^-22 and of |x|
// 2^-24, which is less than bf16's rounding of the logits by far.
__device__ float exponential(float x) { return exp2f(x * 1.4426950408889634F); }

// The sum of exp(logit - largest) over some logits. Starts from the lowest of the finite numbers,
// next to which -inf adds nothing.
struct Softmax {
  float largest = -FLT_MAX;
  float sum = 0;

  template <int N>
  __device__ void add(const float (&logits)[N]) {
    float larger = largest;
    for (const float logit : logits) larger = fmaxf(larger, logit);
    if (larger > largest) sum *= exponential(largest - larger);
    largest = larger;
    for (const float logit : logits) sum += exponential(logit - largest);
  }
};

// A block a row: one look for the softmax, one for the gradient.
template <int N, typename Logit>
__global__ void cross_entropy_rows(float* losses, Logit* logits, const std::int32_t* targets,
                                   float gradient_scale, std::int64_t V) {
  float* shared = cuda::shared_memory<float>();  // a float a warp
  const std::int64_t r = blockIdx.x;
  Logit* row = logits + r * V;
  const std::int32_t target = targets[r];
  const std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * N;
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * N;
  if (target < 0) {
    const float zeros[N] = {};
    if (threadIdx.x == 0) losses[r] = 0;
    if (gradient_scale != 0) {
      for (std::int64_t v = first; v < V; v += step) store(row + v, zeros);
    }
    return;
  }
  Softmax own;
  float values[N];
  for (std::int64_t v = first; v < V; v += step) {
    load(values, row + v);
    own.add(values);
  }
  const float largest = cuda::block_max(own.largest, shared);
  // No thread changes the row before all have read it.
  const float sum = cuda::block_sum(own.sum * exponential(own.largest - largest), shared);
  if (threadIdx.x == 0) losses[r] = logf(sum) - (load(row + target) - largest);
  if (gradient_scale == 0) return;
  __syncthreads();
  const float scale = gradient_scale / sum;
  for (std::int64_t v = first; v < V; v += step) {
    load(values, row + v);
    for (float& value : values) value = exponential(value - largest) * scale;
    if (v <= target && target < v + N) {
      for (int k = 0; k < N; ++k) values[k] -= v + k == target ? gradient_scale : 0.0F;
    }
    store(row + v, values);
  }
}

}  // namespace

void CudaKernels::cross_entropy(float* losses, Numbers logits, const std::int32_t* targets,
                                float gradient_scale, std::int64_t R, std::int64_t V) {
  const unsigned int threads = V < kLongRow ? kThreads : kThreadsOfLongRow;
  cuda::typed(logits, [&]<typename Logit>(Logit* rows) {
    cuda::in_vectors<cuda::kWidest<Logit>>(
        V,
        [&]<int N>(std::integral_constant<int, N>) {
          cuda::launch(stream(), "cross_entropy", cross_entropy_rows<N, Logit>,
                       dim3(static_cast<unsigned int>(R)), threads,
                       threads / cuda::kWarp * sizeof(float), losses, rows, targets, gradient_scale,
                       V);
        },
        rows);
  });
}

}  // namespace archipelago::kernels
