#include "model/optimizer.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace archipelago::model {
namespace {

constexpr float kEpsilon = 1e-8F;

std::int64_t total_size(std::span<const TensorInfo> tensors) {
  std::int64_t size = 0;
  for (const TensorInfo& tensor : tensors) size += tensor.size;
  return size;
}

std::span<float> whole(const kernels::Buffer& buffer) {
  return {buffer.data(), static_cast<std::size_t>(buffer.size())};
}

}  // namespace

Optimizer::Optimizer(std::span<const TensorInfo> tensors, const config::Train& settings,
                     kernels::Kernels& kernels, Moments moments)
    : settings_(settings),
      stretches_(stretches_of(tensors)),
      kernels_(kernels),
      size_(total_size(tensors)),
      second_size_(moments == Moments::two ? size_ : 0) {}

Optimizer::~Optimizer() = default;

std::vector<Optimizer::Stretch> Optimizer::stretches_of(std::span<const TensorInfo> tensors) {
  std::vector<Stretch> stretches;
  for (const TensorInfo& tensor : tensors) {
    const bool decays = tensor.role != TensorRole::vector;
    if (!stretches.empty() && stretches.back().decays == decays &&
        stretches.back().offset + stretches.back().size == tensor.offset) {
      stretches.back().size += tensor.size;
    } else {
      stretches.push_back({tensor.offset, tensor.size, decays});
    }
  }
  return stretches;
}

double Optimizer::step(std::span<float> parameters, std::span<float> gradients, double lr) {
  const double share = 1.0 / static_cast<double>(settings_.accumulate);
  const double norm = share * std::sqrt(kernels_.sum_of_squares(gradients.data(), size_));
  if (!std::isfinite(norm)) {
    kernels_.clear(gradients.data(), size_);
    return norm;
  }
  ++steps_;
  const double clip = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1.0;
  Rates rates{.learning_rate = static_cast<float>(lr),
              .weight_decay = 0,
              .gradient_scale = static_cast<float>(clip * share)};
  for (const auto& [offset, size, decays] : stretches_) {
    rates.weight_decay = decays ? static_cast<float>(settings_.weight_decay) : 0.0F;
    update(kernels_,
           {.parameters = parameters.data() + offset,
            .gradients = gradients.data() + offset,
            .first_moment = first_moment().data() + offset,
            .second_moment = second_size_ == 0 ? nullptr : second_moment().data() + offset,
            .size = size},
           rates);
  }
  return norm;
}

std::span<float> Optimizer::first_moment() {
  if (first_moment_.size() != size_) first_moment_ = kernels::Buffer(kernels_, size_);
  return whole(first_moment_);
}

std::span<float> Optimizer::second_moment() {
  if (second_moment_.size() != second_size_) {
    second_moment_ = kernels::Buffer(kernels_, second_size_);
  }
  return whole(second_moment_);
}

void Optimizer::reset() {
  kernels_.clear(first_moment().data(), size_);
  if (second_size_ > 0) kernels_.clear(second_moment().data(), second_size_);
  steps_ = 0;
}

bool Optimizer::fits(std::span<const float> first_moment_values,
                     std::span<const float> second_moment_values) const {
  return std::cmp_equal(first_moment_values.size(), size_) &&
         std::cmp_equal(second_moment_values.size(), second_size_);
}

// Each vector is gone before the next buffer is made.
void Optimizer::restore(std::vector<float> first_moment_values,
                        std::vector<float> second_moment_values, std::int64_t steps) {
  first_moment();
  first_moment_.copy_in(std::exchange(first_moment_values, {}));
  if (second_size_ > 0) {
    second_moment();
    second_moment_.copy_in(std::exchange(second_moment_values, {}));
  }
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
                                          const config::Train& settings,
                                          kernels::Kernels& kernels) {
  if (settings.optimizer == "sgd") return std::make_unique<Sgd>(tensors, settings, kernels);
  return std::make_unique<AdamW>(tensors, settings, kernels);
}

namespace {

double warm_up(const config::Train& settings, std::int64_t step) {
  if (step >= settings.warmup) return settings.lr;
  return settings.lr * static_cast<double>(step + 1) / static_cast<double>(settings.warmup);
}

}  // namespace

double learning_rate(const config::Train& settings, std::int64_t step, std::int64_t updates) {
  return std::min(learning_rate(settings, step), warm_up(settings, updates));
}

double learning_rate(const config::Train& settings, std::int64_t step) {
  if (step < settings.warmup) return warm_up(settings, step);
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
