#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;
using reference::numeric_gradient;

class LayerNormTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Threads, LayerNormTest, testing::Values(1, 2, 3));

struct Sizes {
  std::int64_t R, C;
};
constexpr Sizes kSizes[] = {{1, 2}, {2, 5}, {7, 33}, {5, 48}};

TEST_P(LayerNormTest, ForwardAndAgain) {
  for (const auto [R, C] : kSizes) {
    const auto x = random_array(R * C, 2, 3);
    const auto weight = random_array(C);
    const auto bias = random_array(C);
    const auto y = random_array(R * C);
    const auto again = random_array(R * C);
    const auto mean = random_array(R);
    const auto rstd = random_array(R);
    kernels_->layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(),
                                 bias.data(), R, C);
    kernels_->layer_norm_again(again.data(), x.data(), mean.data(), rstd.data(), weight.data(),
                               bias.data(), R, C);
    const Array expected = reference::layer_norm(x.start, weight.start, bias.start);
    expect_near(y, expected, kTolerance, "y");
    expect_near(again, expected, kTolerance, "y again");
  }
}

TEST_P(LayerNormTest, BackwardAddsEveryGradient) {
  for (const auto [R, C] : kSizes) {
    const auto x = random_array(R * C, 2, 3);
    const auto weight = random_array(C);
    const auto bias = random_array(C);
    const auto y = random_array(R * C);
    const auto mean = random_array(R);
    const auto rstd = random_array(R);
    const auto d_y = random_array(R * C);
    const auto d_x = random_array(R * C);
    const auto d_weight = random_array(C);
    const auto d_bias = random_array(C);
    kernels_->layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(),
                                 bias.data(), R, C);
    kernels_->layer_norm_backward(d_x.data(), d_weight.data(), d_bias.data(), d_y.data(), x.data(),
                                  mean.data(), rstd.data(), weight.data(), R, C);
    const auto loss = [&](const Array& in, const Array& w, const Array& b) {
      return reference::dot(reference::layer_norm(in, w, b), d_y.start);
    };
    const auto of_x = [&](const Array& v) { return loss(v, weight.start, bias.start); };
    const auto of_weight = [&](const Array& v) { return loss(x.start, v, bias.start); };
    const auto of_bias = [&](const Array& v) { return loss(x.start, weight.start, v); };
    expect_added(d_x, numeric_gradient(of_x, x.start), kTolerance, "d_x");
    expect_added(d_weight, numeric_gradient(of_weight, weight.start), kTolerance, "d_weight");
    expect_added(d_bias, numeric_gradient(of_bias, bias.start), kTolerance, "d_bias");
  }
}

}  // namespace
}  // namespace archipelago::kernels
