#include <cmath>
#include <vector>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_kernels.h"

namespace archipelago::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostSumBlocks = 512;

__global__ void square_sums(double* partial, const float* x, std::int64_t count) {
  double* shared = cuda::shared_memory<double>();  // a double a warp
  double sum = 0;
  for (std::int64_t i = cuda::grid_thread(); i < count; i += cuda::grid_threads()) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
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

__global__ void adamw_elements(float* parameters, float* gradients, float* first_moment,
                               float* second_moment, Update update, std::int64_t count) {
  for (std::int64_t i = cuda::grid_thread(); i < count; i += cuda::grid_threads()) {
    const float g = gradients[i] * update.gradient_scale;
    const float m = update.beta1 * first_moment[i] + (1.0F - update.beta1) * g;
    const float v = update.beta2 * second_moment[i] + (1.0F - update.beta2) * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    gradients[i] = 0;
    parameters[i] = parameters[i] * update.keep -
                    update.rate * m / (sqrtf(v) * update.root_correction + update.epsilon);
  }
}

__global__ void sgd_elements(float* parameters, float* gradients, float* momentum, SgdStep step,
                             std::int64_t count) {
  const float keep = 1.0F - step.learning_rate * step.weight_decay;
  for (std::int64_t i = cuda::grid_thread(); i < count; i += cuda::grid_threads()) {
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
  cuda::launch(stream(), "sum_of_squares", square_sums, blocks, kThreads,
               kThreads / cuda::kWarp * sizeof(double), partial, x, count);
  std::vector<double> sums(blocks);
  copy_out(sums.data(), partial, static_cast<std::int64_t>(sums.size() * sizeof(double)));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

void CudaKernels::adamw(float* parameters, float* gradients, float* first_moment,
                        float* second_moment, const AdamWStep& step, std::int64_t count) {
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
  cuda::launch(stream(), "adamw", adamw_elements, cuda::blocks_up_to(count, kThreads), kThreads, 0,
               parameters, gradients, first_moment, second_moment, update, count);
}

void CudaKernels::sgd(float* parameters, float* gradients, float* momentum, const SgdStep& step,
                      std::int64_t count) {
  cuda::launch(stream(), "sgd", sgd_elements, cuda::blocks_up_to(count, kThreads), kThreads, 0,
               parameters, gradients, momentum, step, count);
}

}  // namespace archipelago::kernels
