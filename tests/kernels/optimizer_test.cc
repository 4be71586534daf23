#include <limits>

#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class OptimizerTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Backends, OptimizerTest, testing::ValuesIn(backends()), backend_name);

TEST_P(OptimizerTest, SumOfSquares) {
  for (const std::int64_t count : {1, 17, 1000}) {
    const auto x = random_array(count);
    EXPECT_NEAR(kernels_->sum_of_squares(x.data(), count), reference::dot(x.start, x.start),
                1e-12 * static_cast<double>(count));
  }
  std::vector<float> values(100, 1.0F);
  values[61] = std::numeric_limits<float>::infinity();
  const auto x = array_of(values);
  EXPECT_FALSE(std::isfinite(kernels_->sum_of_squares(x.data(), 100)));
}

TEST_P(OptimizerTest, AdamWFollowsItsFormula) {
  constexpr std::int64_t kCount = 37;
  constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8, kDecay = 0.1;
  const auto parameters = random_array(kCount);
  auto gradients = random_array(kCount);
  const auto first = random_array(kCount, 0);
  const auto second = random_array(kCount, 0);
  Array x = parameters.start, m = first.start, v = second.start;
  for (int t = 1; t <= 3; ++t) {
    std::vector<float> given(kCount);
    for (float& value : given) value = static_cast<float>(random_.normal());
    gradients.assign(given);
    const AdamWStep step{.learning_rate = static_cast<float>(kRate),
                         .beta1 = static_cast<float>(kBeta1),
                         .beta2 = static_cast<float>(kBeta2),
                         .epsilon = static_cast<float>(kEpsilon),
                         .weight_decay = static_cast<float>(kDecay),
                         .gradient_scale = 0.25F,
                         .step = t};
    kernels_->adamw(parameters.data(), gradients.data(), first.data(), second.data(), step, kCount);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double g = 0.25 * static_cast<double>(given[i]);
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(kBeta1, t));
      const double v_hat = v[i] / (1 - std::pow(kBeta2, t));
      x[i] -= kRate * (m_hat / (std::sqrt(v_hat) + kEpsilon) + kDecay * x[i]);
    }
    expect_near(parameters, x, 1e-6, "parameters");
    expect_near(first, m, 1e-6, "first moment");
    expect_near(second, v, 1e-6, "second moment");
    expect_near(gradients, Array(kCount, 0.0), 0, "gradients");
  }
}

TEST_P(OptimizerTest, SgdFollowsItsFormula) {
  constexpr std::int64_t kCount = 37;
  constexpr double kRate = 0.01, kMomentum = 0.9, kDecay = 0.1;
  const auto parameters = random_array(kCount);
  auto gradients = random_array(kCount);
  const auto momentum = random_array(kCount, 0);
  Array x = parameters.start, m = momentum.start;
  for (int t = 0; t < 3; ++t) {
    std::vector<float> given(kCount);
    for (float& value : given) value = static_cast<float>(random_.normal());
    gradients.assign(given);
    kernels_->sgd(parameters.data(), gradients.data(), momentum.data(),
                  {.learning_rate = static_cast<float>(kRate),
                   .momentum = static_cast<float>(kMomentum),
                   .weight_decay = static_cast<float>(kDecay),
                   .gradient_scale = 0.25F},
                  kCount);
    for (std::int64_t i = 0; i < kCount; ++i) {
      m[i] = kMomentum * m[i] + 0.25 * static_cast<double>(given[i]);
      x[i] -= kRate * (m[i] + kDecay * x[i]);
    }
    expect_near(parameters, x, 1e-6, "parameters");
    expect_near(momentum, m, 1e-6, "momentum");
    expect_near(gradients, Array(kCount, 0.0), 0, "gradients");
  }
}

}  // namespace
}  // namespace archipelago::kernels
