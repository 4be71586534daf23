#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"

namespace archipelago::model {

// Updates the parameters of a flat buffer from their gradients and remembers moments of these.
class Optimizer {
 public:
  virtual ~Optimizer();

  // `gradients`: the sum of those of settings.accumulate parts of a batch; their mean is clipped to
  // settings.clip by its global norm and followed at the rate `lr`; then the gradients are zero.
  // Returns the norm before clipping. A gradient that is not finite changes nothing but zeroes the
  // gradients.
  double step(std::span<float> parameters, std::span<float> gradients, double lr);

  // Of the parameters' layout, in the memory of the kernels; the second is empty where the rule
  // needs none. They come into being with the first call that needs them.
  std::span<float> first_moment();
  std::span<float> second_moment();

  std::int64_t steps() const { return steps_; }  // updates made so far

  // Moments of zero, no update made.
  void reset();

  // Takes over moments and steps as a checkpoint left them, from the host's memory. Whether they
  // are of this rule.
  bool fits(std::span<const float> first_moment, std::span<const float> second_moment) const;
  void restore(std::vector<float> first_moment, std::vector<float> second_moment,
               std::int64_t steps);

 protected:
  enum class Moments { one, two };
  // `kernels`, in whose memory parameters and gradients are, must outlive this.
  Optimizer(std::span<const TensorInfo> tensors, const config::Train& settings,
            kernels::Kernels& kernels, Moments moments);

  // Where a stretch's elements are.
  struct Part {
    float* parameters;
    float* gradients;
    float* first_moment;
    float* second_moment;  // null without one
    std::int64_t size;
  };
  struct Rates {
    float learning_rate;
    float weight_decay;
    float gradient_scale;
  };
  virtual void update(kernels::Kernels& kernels, const Part& part, const Rates& rates) = 0;

  const config::Train& settings() const { return settings_; }

 private:
  // Tensors that follow one another in the flat buffer and are all updated alike.
  struct Stretch {
    std::int64_t offset;
    std::int64_t size;
    bool decays;
  };
  static std::vector<Stretch> stretches_of(std::span<const TensorInfo> tensors);

  config::Train settings_;
  std::vector<Stretch> stretches_;
  kernels::Kernels& kernels_;
  std::int64_t size_;         // of the parameters
  std::int64_t second_size_;  // of the second moment
  kernels::Buffer first_moment_;
  kernels::Buffer second_moment_;
  std::int64_t steps_ = 0;
};

// With decoupled weight decay (Loshchilov and Hutter 2019, Alg. 2).
class AdamW final : public Optimizer {
 public:
  AdamW(std::span<const TensorInfo> tensors, const config::Train& settings,
        kernels::Kernels& kernels)
      : Optimizer(tensors, settings, kernels, Moments::two) {}

 private:
  void update(kernels::Kernels& kernels, const Part& part, const Rates& rates) override;
};

// Stochastic gradient descent with momentum and decoupled weight decay (Loshchilov and Hutter 2019,
// Alg. 1).
class Sgd final : public Optimizer {
 public:
  Sgd(std::span<const TensorInfo> tensors, const config::Train& settings, kernels::Kernels& kernels)
      : Optimizer(tensors, settings, kernels, Moments::one) {}

 private:
  void update(kernels::Kernels& kernels, const Part& part, const Rates& rates) override;
};

// The one that settings.optimizer names.
std::unique_ptr<Optimizer> make_optimizer(std::span<const TensorInfo> tensors,
                                          const config::Train& settings, kernels::Kernels& kernels);

// Learning rate at `step` (from 0): linear warm-up over settings.warmup, then by settings.schedule:
// constant; or as a cosine or a line down to settings.lr * settings.min_lr at settings.steps,
// constant after it.
double learning_rate(const config::Train& settings, std::int64_t step);

// The same for an optimizer that has made so many updates since its moments were new, which may be
// in the middle of the run: at most what the warm-up allows it.
double learning_rate(const config::Train& settings, std::int64_t step, std::int64_t updates);

}  // namespace archipelago::model
