#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/kernels.h"
#include "model/model.h"

namespace archipelago::model {
namespace {

constexpr float kEpsilon = 1e-8F;

std::size_t total_size(std::span<const TensorInfo> tensors) {
  std::int64_t size = 0;
  for (const TensorInfo& tensor : tensors) size += tensor.size;
  return static_cast<std::size_t>(size);
}

}  // namespace

AdamW::AdamW(std::span<const TensorInfo> tensors, const config::Train& settings)
    : settings_(settings),
      tensors_(tensors.begin(), tensors.end()),
      kernels_(kernels::make_cpu_kernels(settings.threads)),
      first_moment_(total_size(tensors)),
      second_moment_(total_size(tensors)) {}

AdamW::~AdamW() = default;

double AdamW::step(std::span<float> parameters, std::span<float> gradients, double lr) {
  const double norm = std::sqrt(
      kernels_->sum_of_squares(gradients.data(), static_cast<std::int64_t>(gradients.size())));
  if (!std::isfinite(norm)) {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    return norm;
  }
  ++steps_;
  const double scale = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1.0;
  kernels::AdamWStep step{.learning_rate = static_cast<float>(lr),
                          .beta1 = static_cast<float>(settings_.beta1),
                          .beta2 = static_cast<float>(settings_.beta2),
                          .epsilon = kEpsilon,
                          .weight_decay = 0,
                          .gradient_scale = static_cast<float>(scale),
                          .step = steps_};
  for (const TensorInfo& tensor : tensors_) {
    step.weight_decay =
        tensor.role == TensorRole::vector ? 0.0F : static_cast<float>(settings_.weight_decay);
    kernels_->adamw(parameters.data() + tensor.offset, gradients.data() + tensor.offset,
                    first_moment_.data() + tensor.offset, second_moment_.data() + tensor.offset,
                    step, tensor.size);
  }
  return norm;
}

void AdamW::restore(std::vector<float> first_moment, std::vector<float> second_moment,
                    std::int64_t steps) {
  first_moment_ = std::move(first_moment);
  second_moment_ = std::move(second_moment);
  steps_ = steps;
}

std::span<float> AdamW::first_moment() { return first_moment_; }
std::span<float> AdamW::second_moment() { return second_moment_; }
std::int64_t AdamW::steps() const { return steps_; }
void AdamW::set_steps(std::int64_t steps) { steps_ = steps; }

double learning_rate(const config::Train& settings, std::int64_t step) {
  if (step < settings.warmup) {
    return settings.lr * static_cast<double>(step + 1) / static_cast<double>(settings.warmup);
  }
  const double least = settings.lr * settings.min_lr;
  if (step >= settings.steps) return least;
  const double progress = static_cast<double>(step - settings.warmup) /
                          static_cast<double>(settings.steps - settings.warmup);
  return least + 0.5 * (settings.lr - least) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace archipelago::model
