#include <cmath>
#include <vector>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/numbers.h"

namespace archipelago::kernels {
namespace {

using cuda::grid_thread;
using cuda::grid_threads;
using cuda::load;
using cuda::store;

constexpr int kVector = 4;
constexpr int kThreads = 256;
constexpr std::int64_t kMostSumBlocks = 1024;

template <int N>
__global__ void square_sums(double* partial, const float* x, std::int64_t count) {
  double* shared = cuda::shared_memory<double>();  // a double a warp
  double sum = 0;
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    float values[N];
    load(values, x + i);
    for (const float value : values) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  sum = cuda::block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

struct Update {
  float rate;             // the learning rate over the first moment's correction
  float root_correction;  // what the second moment's root is multiplied by
  float keep;             // of a parameter after the decay
  float beta1;
  float beta2;
  float epsilon;
  float gradient_scale;
};

template <int N>
__global__ void adamw_elements(float* parameters, float* gradients, float* first_moment,
                               float* second_moment, Update update, std::int64_t count) {
  for (std::int64_t i = grid_thread() * N; i < count; i += grid_threads() * N) {
    float values[N], g[N], m[N], v[N];
    load(values, parameters + i);
    load(g, gradients + i);
    load(m, first_moment + i);
    load(v, second_moment + i);
    for (int k = 0; k < N; ++k) {
      g[k] *= update.gradient_scale;
      m[k] = update.beta1 * m[k] + (1.0F - update.beta1) * g[k];
      v[k] = update.beta2 * v[k] + (1.0F - update.beta2) * g[k] * g[k];
      values[k] = values[k] * update.keep -
                  update.rate * m[k] / (sqrtf(v[k]) * update.root_correction + update.epsilon);
      g[k] = 0;
    }
    store(parameters + i, values);
    store(gradients + i, g);
    store(first_moment + i, m);
    store(second_moment + i, v);
  }
}

__global__ void sgd_elements(float* parameters, float* gradients, float* momentum, SgdStep step,
                             std::int64_t count) {
  const float keep = 1.0F - step.learning_rate * step.weight_decay;
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const float m = step.momentum * momentum[i] + gradients[i] * step.gradient_scale;
    momentum[i] = m;
    gradients[i] = 0;
    parameters[i] = parameters[i] * keep - step.learning_rate * m;
  }
}

}  // namespace

double CudaKernels::sum_of_squares(const float* x, std::int64_t count) {
  const unsigned int blocks = cuda::blocks_up_to(count, kThreads, kMostSumBlocks);
  double* partial = sums_.reserve<double>(blocks);
  cuda::in_vectors<kVector>(
      count,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "sum_of_squares", square_sums<N>, blocks, kThreads,
                     kThreads / cuda::kWarp * sizeof(double), partial, x, count);
      },
      x);
  std::vector<double> sums(blocks);
  copy_out(sums.data(), partial, static_cast<std::int64_t>(sums.size() * sizeof(double)));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

void CudaKernels::adamw(float* parameters, float* gradients, float* first_moment,
                        float* second_moment, const AdamWStep& step, std::int64_t count) {
  forget_rounded(parameters);
  const auto t = static_cast<double>(step.step);
  const double first_correction = 1.0 - std::pow(static_cast<double>(step.beta1), t);
  const double second_correction = 1.0 - std::pow(static_cast<double>(step.beta2), t);
  const Update update{
      .rate = static_cast<float>(static_cast<double>(step.learning_rate) / first_correction),
      .root_correction = static_cast<float>(1.0 / std::sqrt(second_correction)),
      .keep = 1.0F - step.learning_rate * step.weight_decay,
      .beta1 = step.beta1,
      .beta2 = step.beta2,
      .epsilon = step.epsilon,
      .gradient_scale = step.gradient_scale};
  cuda::in_vectors<kVector>(
      count,
      [&]<int N>(std::integral_constant<int, N>) {
        cuda::launch(stream(), "adamw", adamw_elements<N>, cuda::blocks_up_to(count, N * kThreads),
                     kThreads, 0, parameters, gradients, first_moment, second_moment, update,
                     count);
      },
      parameters, gradients, first_moment, second_moment);
}

void CudaKernels::sgd(float* parameters, float* gradients, float* momentum, const SgdStep& step,
                      std::int64_t count) {
  forget_rounded(parameters);
  cuda::launch(stream(), "sgd", sgd_elements, cuda::blocks_up_to(count, kThreads), kThreads, 0,
               parameters, gradients, momentum, step, count);
}

}  // namespace archipelago::kernels
