#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

namespace archipelago::kernels {
namespace {

constexpr int kThreads = 256;

using cuda::load;
using cuda::store;

// A block a row.
template <typename Logit>
__global__ void cross_entropy_rows(float* losses, Logit* logits, const std::int32_t* targets,
                                   float gradient_scale, std::int64_t V) {
  float* shared = cuda::shared_memory<float>();  // a float a warp
  const std::int64_t r = blockIdx.x;
  Logit* row = logits + r * V;
  const std::int32_t target = targets[r];
  if (target < 0) {
    if (threadIdx.x == 0) losses[r] = 0;
    if (gradient_scale != 0) {
      for (std::int64_t v = threadIdx.x; v < V; v += kThreads) store(row + v, 0);
    }
    return;
  }
  float largest = -INFINITY;
  for (std::int64_t v = threadIdx.x; v < V; v += kThreads) largest = fmaxf(largest, load(row + v));
  largest = cuda::block_max(largest, shared);
  float sum = 0;
  for (std::int64_t v = threadIdx.x; v < V; v += kThreads) sum += expf(load(row + v) - largest);
  sum = cuda::block_sum(sum, shared);  // no thread changes the row before all have read it
  if (threadIdx.x == 0) losses[r] = logf(sum) - (load(row + target) - largest);
  if (gradient_scale == 0) return;
  __syncthreads();
  const float scale = gradient_scale / sum;
  for (std::int64_t v = threadIdx.x; v < V; v += kThreads) {
    store(row + v, expf(load(row + v) - largest) * scale - (v == target ? gradient_scale : 0.0F));
  }
}

}  // namespace

void CudaKernels::cross_entropy(float* losses, Numbers logits, const std::int32_t* targets,
                                float gradient_scale, std::int64_t R, std::int64_t V) {
  cuda::typed(logits, [&]<typename Logit>(Logit* rows) {
    cuda::launch(stream(), "cross_entropy", cross_entropy_rows<Logit>,
                 dim3(static_cast<unsigned int>(R)), kThreads,
                 kThreads / cuda::kWarp * sizeof(float), losses, rows, targets, gradient_scale, V);
  });
}

}  // namespace archipelago::kernels
