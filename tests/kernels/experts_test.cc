#include <algorithm>

#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class ExpertsTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Threads, ExpertsTest, testing::Values(1, 2, 3));

struct Sizes {
  std::int64_t R, E, K;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {5, 4, 2}, {7, 5, 5}, {40, 8, 1}};

TEST_P(ExpertsTest, RouteForwardAndBackward) {
  for (const auto [R, E, K] : kSizes) {
    const auto probabilities = random_array(R * E, 2);
    const Array logits = probabilities.start;
    const auto log_sum = random_array(R);
    const auto gates = random_array(R * K);
    std::vector<std::int32_t> chosen(R * K, -1);
    kernels_->route_forward(probabilities.data(), log_sum.data(), chosen.data(), gates.data(), R, E,
                            K);
    for (std::int64_t r = 0; r < R; ++r) {
      std::vector<std::int32_t> order(E);
      for (std::int64_t e = 0; e < E; ++e) order[e] = static_cast<std::int32_t>(e);
      std::ranges::sort(order, std::greater<>(), [&](std::int32_t e) { return logits[r * E + e]; });
      for (std::int64_t k = 0; k < K; ++k) EXPECT_EQ(chosen[r * K + k], order[k]);
    }
    const auto expected_gates = [&, e = E, k = K, rows = R](const Array& given) {
      Array result;
      for (std::int64_t r = 0; r < rows; ++r) {
        double total = 0;
        for (std::int64_t i = 0; i < k; ++i) total += std::exp(given[r * e + chosen[r * k + i]]);
        for (std::int64_t i = 0; i < k; ++i) {
          result.push_back(std::exp(given[r * e + chosen[r * k + i]]) / total);
        }
      }
      return result;
    };
    const auto expected_log_sum = [e = E, rows = R](const Array& given) {
      Array result(rows, 0.0);
      for (std::int64_t i = 0; i < rows * e; ++i) result[i / e] += std::exp(given[i]);
      for (double& value : result) value = std::log(value);
      return result;
    };
    const auto expected_probabilities = [&, e = E, rows = R](const Array& given) {
      const Array total = expected_log_sum(given);
      Array result;
      for (std::int64_t i = 0; i < rows * e; ++i)
        result.push_back(std::exp(given[i] - total[i / e]));
      return result;
    };
    expect_near(gates, expected_gates(logits), kTolerance, "gates");
    expect_near(log_sum, expected_log_sum(logits), kTolerance, "log_sum");
    expect_near(probabilities, expected_probabilities(logits), kTolerance, "probabilities");

    const auto d_gates = random_array(R * K);
    const auto load = random_array(E);
    const auto d_logits = random_array(R * E);
    constexpr double kBalance = 0.75, kZ = 0.5;
    kernels_->route_backward(d_logits.data(), d_gates.data(), probabilities.data(), log_sum.data(),
                             chosen.data(), gates.data(), load.data(), static_cast<float>(kBalance),
                             static_cast<float>(kZ), R, E, K);
    const auto objective = [&, e = E](const Array& given) {
      const Array p = expected_probabilities(given);
      const Array z = expected_log_sum(given);
      double balance = 0;
      for (std::size_t i = 0; i < p.size(); ++i) balance += load.start[i % e] * p[i];
      return reference::dot(expected_gates(given), d_gates.start) + kBalance * balance +
             kZ * reference::dot(z, z) / 2;
    };
    expect_near(d_logits, reference::numeric_gradient(objective, logits), kTolerance, "d_logits");
  }
}

TEST_P(ExpertsTest, GatherAndScatterRows) {
  constexpr std::int64_t R = 6, C = 19;
  const std::vector<std::int32_t> rows = {4, 0, 5};
  const auto x = random_array(R * C);
  const auto y = random_array(3 * C);
  const auto scales = random_array(3);
  Array plain, scaled;
  for (std::int64_t i = 0; i < 3 * C; ++i) {
    plain.push_back(x.start[rows[i / C] * C + i % C]);
    scaled.push_back(plain.back() * scales.start[i / C]);
  }
  kernels_->gather_rows(y.data(), x.data(), rows.data(), scales.data(), 3, C);
  expect_near(y, scaled, kTolerance, "scaled");
  kernels_->gather_rows(y.data(), x.data(), rows.data(), nullptr, 3, C);
  expect_near(y, plain, 0, "plain");

  const auto add = random_array(3 * C);
  Array change(R * C, 0.0);
  for (std::int64_t i = 0; i < 3 * C; ++i) change[rows[i / C] * C + i % C] = add.start[i];
  kernels_->scatter_rows(x.data(), add.data(), rows.data(), 3, C);
  expect_added(x, change, kTolerance, "scattered");
}

TEST_P(ExpertsTest, CombineForwardAndBackward) {
  constexpr std::int64_t R = 5, C = 18, K = 2;
  std::vector<std::int32_t> places = {3, 9, 0, 1, 8, 2, 5, 4, 7, 6};
  const auto in = random_array(R * C);
  const auto y = random_array(R * K * C);
  const auto gates = random_array(R * K);
  const auto out = random_array(R * C);
  kernels_->combine_forward(out.data(), in.data(), y.data(), places.data(), gates.data(), R, C, K);
  const auto combined = [&](const Array& gate) {
    Array result = in.start;
    for (std::int64_t i = 0; i < R * K * C; ++i) {
      const std::int64_t slot = i / C;
      result[slot / K * C + i % C] += gate[slot] * y.start[places[slot] * C + i % C];
    }
    return result;
  };
  expect_near(out, combined(gates.start), kTolerance, "out");

  const auto d_out = random_array(R * C);
  const auto d_gates = random_array(R * K);
  kernels_->combine_backward(d_gates.data(), d_out.data(), y.data(), places.data(), R, C, K);
  const auto loss = [&](const Array& gate) { return reference::dot(combined(gate), d_out.start); };
  expect_near(d_gates, reference::numeric_gradient(loss, gates.start), kTolerance, "d_gates");
}

}  // namespace
}  // namespace archipelago::kernels
