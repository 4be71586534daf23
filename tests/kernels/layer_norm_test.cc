#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class LayerNormTest : public KernelTest {
 protected:
  // What a forward and a backward pass take and give.
  struct Arrays {
    TestArray x, weight, bias, y, mean, rstd, d_y, d_x, d_weight, d_bias, room;
    ConstNumbers rounded = nullptr;
  };

  // Both passes over (R, C) numbers of this deviation around `x_mean`.
  Arrays forward_and_backward(std::int64_t R, std::int64_t C, double x_deviation = 1,
                              double x_mean = 0) {
    Arrays a{random_array(R * C, x_deviation, x_mean),
             random_array(C),
             random_array(C),
             random_array(R * C),
             random_array(R),
             random_array(R),
             random_array(R * C),
             random_array(R * C),
             random_array(C),
             random_array(C),
             random_array(R * C)};
    kernels_->layer_norm_forward(a.y.data(), a.mean.data(), a.rstd.data(), a.x.data(),
                                 a.weight.data(), a.bias.data(), R, C);
    a.rounded = kernels_->layer_norm_backward(a.d_x.data(), a.d_weight.data(), a.d_bias.data(),
                                              a.d_y.data(), a.x.data(), a.mean.data(),
                                              a.rstd.data(), a.weight.data(), a.room.data(), R, C);
    return a;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, LayerNormTest, testing::ValuesIn(backends()), backend_name);

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
    expect_near(y, expected, tolerance(), "y");
    expect_near(again, expected, tolerance(), "y again");
  }
}

TEST_P(LayerNormTest, BackwardAddsEveryGradient) {
  for (const auto [R, C] : kSizes) {
    const Arrays a = forward_and_backward(R, C, 2, 3);
    const auto expected =
        reference::layer_norm_gradients(a.x.start, a.weight.start, a.bias.start, a.d_y.start);
    expect_added(a.d_x, expected.x, tolerance(), "d_x");
    expect_added(a.d_weight, expected.weight, tolerance(), "d_weight");
    expect_added(a.d_bias, expected.bias, tolerance(), "d_bias");
    expect_rounded_copy(a.rounded, a.d_x, a.room);
  }
}

TEST_P(LayerNormTest, BackwardRoundsNothingWithoutRoom) {
  const Arrays a = forward_and_backward(3, 8);
  const Array before = a.d_x.now();
  const ConstNumbers rounded = kernels_->layer_norm_backward(
      a.d_x.data(), a.d_weight.data(), a.d_bias.data(), a.d_y.data(), a.x.data(), a.mean.data(),
      a.rstd.data(), a.weight.data(), nullptr, 3, 8);
  EXPECT_EQ(rounded.data, nullptr);
  EXPECT_NE(a.d_x.now(), before);
}

// Sums over more rows than a GPU's block, and its warps, take together, and over rows whose sums
// do not fit a block's memory; against the formula.
TEST_P(LayerNormTest, BackwardOverManyRowsAndLongOnes) {
  for (const auto [R, C] : {Sizes{1100, 35}, Sizes{4200, 4}, Sizes{3, 6200}}) {
    const Arrays a = forward_and_backward(R, C);
    Array weight_sums(C, 0.0), bias_sums(C, 0.0);
    const Array normal = reference::layer_norm(a.x.start, Array(C, 1.0), Array(C, 0.0));
    for (std::int64_t i = 0; i < R * C; ++i) {
      weight_sums[i % C] += a.d_y.start[i] * normal[i];
      bias_sums[i % C] += a.d_y.start[i];
    }
    expect_added(a.d_weight, weight_sums, tolerance(), "d_weight");
    expect_added(a.d_bias, bias_sums, tolerance(), "d_bias");
  }
}

}  // namespace
}  // namespace archipelago::kernels
