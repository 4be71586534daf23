#include "model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/kernels.h"

namespace archipelago::model {
namespace {

constexpr float kEpsilon = 1e-8F;

std::size_t total_size(std::span<const TensorInfo> tensors) {
  std::int64_t size = 0;
  for (const TensorInfo& tensor : tensors) size += tensor.size;
  return static_cast<std::size_t>(size);
}

}  // namespace

Optimizer::Optimizer(std::span<const TensorInfo> tensors, const config::Train& settings,
                     Moments moments)
    : settings_(settings),
      tensors_(tensors.begin(), tensors.end()),
      kernels_(kernels::make_cpu_kernels(settings.threads)),
      first_moment_(total_size(tensors)),
      second_moment_(moments == Moments::two ? first_moment_.size() : 0) {}

Optimizer::~Optimizer() = default;

double Optimizer::step(std::span<float> parameters, std::span<float> gradients, double lr) {
  const double share = 1.0 / static_cast<double>(settings_.accumulate);
  const double norm = share * std::sqrt(kernels_->sum_of_squares(
                                  gradients.data(), static_cast<std::int64_t>(gradients.size())));
  if (!std::isfinite(norm)) {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    return norm;
  }
  ++steps_;
  const double clip = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1.0;
  Rates rates{.learning_rate = static_cast<float>(lr),
              .weight_decay = 0,
              .gradient_scale = static_cast<float>(clip * share)};
  for (const TensorInfo& tensor : tensors_) {
    rates.weight_decay =
        tensor.role == TensorRole::vector ? 0.0F : static_cast<float>(settings_.weight_decay);
    update(
        *kernels_,
        {.parameters = parameters.data() + tensor.offset,
         .gradients = gradients.data() + tensor.offset,
         .first_moment = first_moment_.data() + tensor.offset,
         .second_moment = second_moment_.empty() ? nullptr : second_moment_.data() + tensor.offset,
         .size = tensor.size},
        rates);
  }
  return norm;
}

bool Optimizer::fits(std::span<const float> first_moment,
                     std::span<const float> second_moment) const {
  return first_moment.size() == first_moment_.size() &&
         second_moment.size() == second_moment_.size();
}

void Optimizer::restore(std::vector<float> first_moment, std::vector<float> second_moment,
                        std::int64_t steps) {
  first_moment_ = std::move(first_moment);
  second_moment_ = std::move(second_moment);
  steps_ = steps;
}

void AdamW::update(kernels::Kernels& kernels, const Part& part, const Rates& rates) {
  kernels.adamw(part.parameters, part.gradients, part.first_moment, part.second_moment,
                {.learning_rate = rates.learning_rate,
                 .beta1 = static_cast<float>(settings().beta1),
                 .beta2 = static_cast<float>(settings().beta2),
                 .epsilon = kEpsilon,
                 .weight_decay = rates.weight_decay,
                 .gradient_scale = rates.gradient_scale,
                 .step = steps()},
                part.size);
}

void Sgd::update(kernels::Kernels& kernels, const Part& part, const Rates& rates) {
  kernels.sgd(part.parameters, part.gradients, part.first_moment,
              {.learning_rate = rates.learning_rate,
               .momentum = static_cast<float>(settings().momentum),
               .weight_decay = rates.weight_decay,
               .gradient_scale = rates.gradient_scale},
              part.size);
}

std::unique_ptr<Optimizer> make_optimizer(std::span<const TensorInfo> tensors,
                                          const config::Train& settings) {
  if (settings.optimizer == "sgd") return std::make_unique<Sgd>(tensors, settings);
  return std::make_unique<AdamW>(tensors, settings);
}

double learning_rate(const config::Train& settings, std::int64_t step) {
  if (step < settings.warmup) {
    return settings.lr * static_cast<double>(step + 1) / static_cast<double>(settings.warmup);
  }
  if (settings.schedule == "constant") return settings.lr;
  const double least = settings.lr * settings.min_lr;
  if (step >= settings.steps) return least;
  const double progress = static_cast<double>(step - settings.warmup) /
                          static_cast<double>(settings.steps - settings.warmup);
  const double left = settings.schedule == "linear"
                          ? 1.0 - progress
                          : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return least + (settings.lr - least) * left;
}

}  // namespace archipelago::model
