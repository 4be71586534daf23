#include "kernel_test.h"

// Numbers as a device's kernels hand them to one another, bf16 on a GPU that computes in it: the
// same formulas, over sizes whose bf16 rows are aligned and not. Every bound follows from what is
// rounded to bf16 on the way, to first order; what is f32 has f32's bound on every device.

namespace archipelago::kernels {
namespace {

using reference::Array;
using reference::magnitudes;
using reference::numeric_gradient;
using reference::scaled;

class CompactTest : public KernelTest {
 protected:
  // Of numbers that are rounded once, when they are stored.
  void expect_stored(const TestArray& actual, const Array& expected,
                     const std::string& what) const {
    expect_rounded(actual.now(), expected, magnitudes(expected), what);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, CompactTest, testing::ValuesIn(backends()), backend_name);

struct Sizes {
  std::int64_t R, I, O;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {3, 5, 7}, {17, 9, 16}, {17, 16, 9}, {65, 33, 31}};

// Weights and biases are rounded.
Array linear_sensitivity(const TestArray& x, const TestArray& weight, const TestArray& bias,
                         std::int64_t I) {
  return reference::linear(magnitudes(x.start), magnitudes(weight.start), magnitudes(bias.start),
                           I);
}

TEST_P(CompactTest, LinearMapsFromAndToIt) {
  for (const auto [R, I, O] : kSizes) {
    const auto x = compact_array(R * I);
    const auto weight = random_array(I * O);
    const auto bias = random_array(O);
    const auto residual = random_array(R * O);
    const auto y = compact_array(R * O);
    const auto stream = random_array(R * O);
    const Array expected = reference::linear(x.start, weight.start, bias.start, I);
    const Array sensitivity = linear_sensitivity(x, weight, bias, I);
    kernels_->linear_forward(y.numbers(), x.numbers(), weight.data(), bias.data(), nullptr, R, I,
                             O);
    expect_rounded(y.now(), expected, reference::sum(sensitivity, magnitudes(expected)), "y");
    kernels_->linear_forward(stream.data(), x.numbers(), weight.data(), bias.data(),
                             residual.data(), R, I, O);
    expect_rounded(stream.now(), reference::sum(expected, residual.start), sensitivity, "stream");
  }
}

TEST_P(CompactTest, GeluAndItsGradient) {
  constexpr double kSteepest = 1.13;  // the largest slope of a GELU
  for (const auto [R, I, O] : kSizes) {
    const auto x = compact_array(R * I);
    const auto weight = random_array(I * O);
    const auto bias = random_array(O);
    const auto pre = compact_array(R * O);
    const auto act = compact_array(R * O);
    kernels_->linear_gelu_forward(act.numbers(), pre.numbers(), x.numbers(), weight.data(),
                                  bias.data(), R, I, O);
    const Array sums = reference::linear(x.start, weight.start, bias.start, I);
    const Array sensitivity =
        reference::sum(linear_sensitivity(x, weight, bias, I), magnitudes(sums));
    expect_rounded(pre.now(), sums, sensitivity, "pre");
    const Array activations = reference::gelu(sums);
    expect_rounded(act.now(), activations,
                   reference::sum(scaled(sensitivity, kSteepest), magnitudes(activations)), "act");

    const auto d_act = compact_array(R * O);
    const Array kept = pre.now();
    kernels_->gelu_backward(d_act.numbers(), pre.numbers(), R * O);
    expect_stored(pre, reference::gelu(kept), "act again");
    Array d_pre;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto gelu = [](const Array& v) { return reference::gelu(v)[0]; };
      d_pre.push_back(d_act.start[i] * numeric_gradient(gelu, {kept[i]})[0]);
    }
    expect_stored(d_act, d_pre, "d_pre");
  }
}

TEST_P(CompactTest, LinearMapsGradientsThroughAGelu) {
  constexpr double kSteepest = 1.13;
  for (const auto [R, I, O] : kSizes) {
    const auto pre = compact_array(R * I);
    const auto weight = random_array(I * O);
    const auto d_y = compact_array(R * O);
    const auto d_pre = compact_array(R * I);
    kernels_->linear_gelu_backward_input(d_pre.numbers(), d_y.numbers(), weight.data(),
                                         pre.numbers(), R, I, O);
    const Array turned = reference::transposed(weight.start, I, O);
    Array expected = reference::product(d_y.start, turned, R, I, O);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto gelu = [](const Array& v) { return reference::gelu(v)[0]; };
      expected[i] *= numeric_gradient(gelu, {pre.start[i]})[0];
    }
    // The product may be rounded before and after.
    const Array sizes = reference::product(magnitudes(d_y.start), magnitudes(turned), R, I, O);
    expect_rounded(d_pre.now(), expected,
                   reference::sum(scaled(sizes, kSteepest), scaled(magnitudes(expected), 2)),
                   "d_pre");
    EXPECT_EQ(pre.now(), pre.start);
  }
}

TEST_P(CompactTest, LinearMapsGradients) {
  for (const auto [R, I, O] : kSizes) {
    const auto x = compact_array(R * I);
    const auto weight = random_array(I * O);
    const auto d_y = compact_array(R * O);
    const auto d_x = compact_array(R * I);
    const auto d_weight = random_array(I * O);
    const auto d_bias = random_array(O);
    kernels_->linear_backward_input(d_x.numbers(), d_y.numbers(), weight.data(), R, I, O);
    kernels_->linear_backward_weight(d_weight.data(), d_bias.data(), x.numbers(), d_y.numbers(), R,
                                     I, O);
    const Array turned = reference::transposed(weight.start, I, O);
    const Array expected = reference::product(d_y.start, turned, R, I, O);
    const Array sensitivity =
        reference::product(magnitudes(d_y.start), magnitudes(turned), R, I, O);
    expect_rounded(d_x.now(), expected, reference::sum(sensitivity, magnitudes(expected)), "d_x");
    // Nothing more is rounded.
    expect_added(d_weight,
                 reference::product(reference::transposed(x.start, R, I), d_y.start, I, O, R),
                 kF32Tolerance, "d_weight");
    expect_added(d_bias, reference::product(Array(d_y.start.size() / O, 1.0), d_y.start, 1, O, R),
                 kF32Tolerance, "d_bias");
  }
}

TEST_P(CompactTest, LayerNormToItAndBack) {
  constexpr std::int64_t R = 7, C = 33;
  const auto x = random_array(R * C, 2, 3);
  const auto weight = random_array(C);
  const auto bias = random_array(C);
  const auto y = compact_array(R * C);
  const auto again = compact_array(R * C);
  const auto mean = random_array(R);
  const auto rstd = random_array(R);
  kernels_->layer_norm_forward(y.numbers(), mean.data(), rstd.data(), x.data(), weight.data(),
                               bias.data(), R, C);
  kernels_->layer_norm_again(again.numbers(), x.data(), mean.data(), rstd.data(), weight.data(),
                             bias.data(), R, C);
  const Array expected = reference::layer_norm(x.start, weight.start, bias.start);
  expect_stored(y, expected, "y");
  expect_stored(again, expected, "y again");

  const auto d_y = compact_array(R * C);
  const auto d_x = random_array(R * C);
  const auto d_weight = random_array(C);
  const auto d_bias = random_array(C);
  const ConstNumbers rounded = kernels_->layer_norm_backward(
      d_x.data(), d_weight.data(), d_bias.data(), d_y.numbers(), x.data(), mean.data(), rstd.data(),
      weight.data(), d_y.data(), R, C);
  expect_rounded_copy(rounded, d_x, d_y);
  const auto gradients =
      reference::layer_norm_gradients(x.start, weight.start, bias.start, d_y.start);
  expect_added(d_x, gradients.x, kF32Tolerance, "d_x");
  expect_added(d_weight, gradients.weight, kF32Tolerance, "d_weight");
  expect_added(d_bias, gradients.bias, kF32Tolerance, "d_bias");
}

TEST_P(CompactTest, CrossEntropyAndTheProductsOfAHead) {
  constexpr std::int64_t R = 7, C = 5, V = 65;
  auto targets = random_tokens(R, V);
  targets[2] = -1;
  const auto given = indices(targets);
  const auto x = random_array(R * C);
  const auto table = random_array(V * C);
  const auto logits = compact_array(R * V);
  kernels_->matmul(logits.numbers(), x.data(), table.data(), Transpose::right, false, R, V, C);
  const Array turned = reference::transposed(table.start, V, C);
  const Array expected = reference::product(x.start, turned, R, V, C);
  // Both operands are rounded, then the result.
  const Array sizes = reference::product(magnitudes(x.start), magnitudes(turned), R, V, C);
  expect_rounded(logits.now(), expected, reference::sum(scaled(sizes, 2), magnitudes(expected)),
                 "logits");

  const auto losses = random_array(R);
  const Array scores = logits.now();
  kernels_->cross_entropy(losses.data(), logits.numbers(), given.data(), 0.5F, R, V);
  expect_near(losses, reference::cross_entropy(scores, targets, V), kF32Tolerance, "losses");
  const auto loss = [&](const Array& v) {
    double sum = 0;
    for (const double each : reference::cross_entropy(v, targets, V)) sum += 0.5 * each;
    return sum;
  };
  expect_stored(logits, numeric_gradient(loss, scores), "d_logits");

  const Array d_logits = logits.now();
  const Array d_turned = reference::transposed(d_logits, R, V);
  const auto d_table = random_array(V * C);
  const auto d_x = random_array(R * C);
  kernels_->matmul(d_table.data(), logits.numbers(), x.data(), Transpose::left, true, V, C, R);
  kernels_->matmul(d_x.data(), logits.numbers(), table.data(), Transpose::neither, false, R, C, V);
  expect_rounded(d_table.now(),
                 reference::sum(d_table.start, reference::product(d_turned, x.start, V, C, R)),
                 reference::product(magnitudes(d_turned), magnitudes(x.start), V, C, R), "d_table");
  expect_rounded(d_x.now(), reference::product(d_logits, table.start, R, C, V),
                 reference::product(magnitudes(d_logits), magnitudes(table.start), R, C, V), "d_x");
}

}  // namespace
}  // namespace archipelago::kernels
