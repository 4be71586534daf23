#include <limits>

#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;
using reference::numeric_gradient;

class LossTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LossTest, testing::ValuesIn(backends()), backend_name);

TEST_P(LossTest, EmbeddingForwardAndBackward) {
  constexpr std::int64_t B = 3, T = 5, C = 19, V = 4;  // every token several times
  const auto tokens = random_tokens(B * T, V);
  const auto given = indices(tokens);
  const auto token_table = random_array(V * C);
  const auto position_table = random_array(T * C);
  const auto x = random_array(B * T * C);
  kernels_->embedding_forward(x.data(), given.data(), token_table.data(), position_table.data(), B,
                              T, C);
  expect_near(x, reference::embedding(tokens, token_table.start, position_table.start, T, C),
              tolerance(), "x");

  const auto d_x = random_array(B * T * C);
  const auto d_tokens = random_array(V * C);
  const auto d_positions = random_array(T * C);
  kernels_->embedding_backward(d_tokens.data(), d_positions.data(), given.data(), d_x.data(), B, T,
                               C);
  const auto of_tokens = [&](const Array& v) {
    return reference::dot(reference::embedding(tokens, v, position_table.start, T, C), d_x.start);
  };
  const auto of_positions = [&](const Array& v) {
    return reference::dot(reference::embedding(tokens, token_table.start, v, T, C), d_x.start);
  };
  expect_added(d_tokens, numeric_gradient(of_tokens, token_table.start), tolerance(), "tokens");
  expect_added(d_positions, numeric_gradient(of_positions, position_table.start), tolerance(),
               "positions");
}

// Few tokens with many rows each, many with few, and some that a power of two divides alike.
TEST_P(LossTest, TokensGradientsOverManyRows) {
  struct Sizes {
    std::int64_t T, C, V, factor;
  };
  for (const auto [T, C, V, factor] :
       {Sizes{300, 8, 2, 1}, Sizes{150, 20, 90, 1}, Sizes{70, 260, 9, 256}, Sizes{1, 3, 1, 1}}) {
    auto tokens = random_tokens(T, V);
    for (std::int32_t& token : tokens) token *= static_cast<std::int32_t>(factor);
    const auto given = indices(tokens);
    const auto d_x = random_array(T * C);
    const auto d_tokens = random_array(((V - 1) * factor + 1) * C);
    const auto d_positions = random_array(T * C);
    kernels_->embedding_backward(d_tokens.data(), d_positions.data(), given.data(), d_x.data(), 1,
                                 T, C);
    Array expected(d_tokens.start.size(), 0.0);
    for (std::int64_t i = 0; i < T * C; ++i) expected[tokens[i / C] * C + i % C] += d_x.start[i];
    expect_added(d_tokens, expected, kF32Tolerance, "tokens");
    expect_added(d_positions, d_x.start, kF32Tolerance, "positions");
  }
}

TEST_P(LossTest, CrossEntropyOfLongRows) {
  constexpr std::int64_t R = 2, V = 8200;
  const std::vector<std::int32_t> targets = {8199, 3};
  const auto given = indices(targets);
  for (const Precision precision : {Precision::f32, kernels_->compact(nullptr).precision}) {
    const auto logits = random_array(R * V, 4, 0, precision);
    const auto losses = random_array(R);
    kernels_->cross_entropy(losses.data(), {logits.data(), precision}, given.data(), 2.0F, R, V);
    expect_near(losses, reference::cross_entropy(logits.start, targets, V), kF32Tolerance,
                "losses");
    Array expected;
    for (std::int64_t r = 0; r < R; ++r) {
      const auto row = logits.start.begin() + r * V;
      double sum = 0;
      for (std::int64_t v = 0; v < V; ++v) sum += std::exp(row[v]);
      for (std::int64_t v = 0; v < V; ++v) {
        expected.push_back(2 * (std::exp(row[v]) / sum - (v == targets[r] ? 1 : 0)));
      }
    }
    expect_rounded(logits.now(), expected, reference::magnitudes(expected), "d_logits");
  }
}

TEST_P(LossTest, CrossEntropyAndItsGradient) {
  for (const std::int64_t V : {1, 3, 64, 65}) {
    constexpr std::int64_t R = 7;
    auto targets = random_tokens(R, V);
    targets[2] = -1;
    const auto given = indices(targets);
    const auto logits = random_array(R * V, 4);
    const auto losses = random_array(R);
    const Array expected = reference::cross_entropy(logits.start, targets, V);
    kernels_->cross_entropy(losses.data(), logits.data(), given.data(), 0, R, V);
    expect_near(losses, expected, tolerance(), "losses");
    expect_near(logits, logits.start, 0, "logits without gradients");

    kernels_->cross_entropy(losses.data(), logits.data(), given.data(), 0.5F, R, V);
    expect_near(losses, expected, tolerance(), "losses with gradients");
    const auto loss = [&](const Array& v) {
      return 0.5 * reference::dot(reference::cross_entropy(v, targets, V), Array(R, 1.0));
    };
    expect_near(logits, numeric_gradient(loss, logits.start), tolerance(), "d_logits");
  }
}

TEST_P(LossTest, CrossEntropyOfNotANumberIsNotANumber) {
  for (const std::size_t where : {11, 39}) {
    std::vector<float> values(40, 0.5F);
    values[where] = std::numeric_limits<float>::quiet_NaN();
    const auto logits = array_of(values);
    const auto losses = random_array(1);
    kernels_->cross_entropy(losses.data(), logits.data(), indices({3}).data(), 1, 1, 40);
    EXPECT_TRUE(std::isnan(losses.now()[0]));
  }
}

}  // namespace
}  // namespace archipelago::kernels
