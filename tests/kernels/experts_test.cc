#include <algorithm>
#include <limits>

#include "kernel_test.h"

namespace archipelago::kernels {
namespace {

using reference::Array;

class ExpertsTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Backends, ExpertsTest, testing::ValuesIn(backends()), backend_name);

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
    const IndexBuffer choices(*kernels_, R * K);
    kernels_->route_forward(probabilities.data(), log_sum.data(), choices.data(), gates.data(), R,
                            E, K);
    const auto chosen = values_of(choices);
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
    expect_near(gates, expected_gates(logits), tolerance(), "gates");
    expect_near(log_sum, expected_log_sum(logits), tolerance(), "log_sum");
    expect_near(probabilities, expected_probabilities(logits), tolerance(), "probabilities");

    const auto d_gates = random_array(R * K);
    const auto load = random_array(E);
    const auto d_logits = random_array(R * E);
    constexpr double kBalance = 0.75, kZ = 0.5;
    kernels_->route_backward(d_logits.data(), d_gates.data(), probabilities.data(), log_sum.data(),
                             choices.data(), gates.data(), load.data(),
                             static_cast<float>(kBalance), static_cast<float>(kZ), R, E, K);
    const auto objective = [&, e = E](const Array& given) {
      const Array p = expected_probabilities(given);
      const Array z = expected_log_sum(given);
      double balance = 0;
      for (std::size_t i = 0; i < p.size(); ++i) balance += load.start[i % e] * p[i];
      return reference::dot(expected_gates(given), d_gates.start) + kBalance * balance +
             kZ * reference::dot(z, z) / 2;
    };
    expect_near(d_logits, reference::numeric_gradient(objective, logits), tolerance(), "d_logits");
  }
}

// More experts than a warp has lanes, equal logits, and more of them than are chosen.
TEST_P(ExpertsTest, RoutesToTheLargestAndOfEqualsToTheLower) {
  constexpr std::int64_t R = 3, E = 70, K = 4;
  std::vector<float> logits(R * E, -1.0F);
  for (const std::int64_t e : {69, 3, 40}) logits[0 * E + e] = 5;
  for (const std::int64_t e : {2, 34, 66, 68}) logits[1 * E + e] = static_cast<float>(e);
  const auto probabilities = array_of(logits);
  const auto log_sum = random_array(R);
  const auto gates = random_array(R * K);
  const IndexBuffer chosen(*kernels_, R * K);
  kernels_->route_forward(probabilities.data(), log_sum.data(), chosen.data(), gates.data(), R, E,
                          K);
  EXPECT_EQ(values_of(chosen),
            (std::vector<std::int32_t>{3, 40, 69, 0, 68, 66, 34, 2, 0, 1, 2, 3}));
}

TEST_P(ExpertsTest, RoutesNotANumberSomewhere) {
  constexpr std::int64_t E = 5, K = 3;
  const auto probabilities =
      array_of(std::vector<float>(E, std::numeric_limits<float>::quiet_NaN()));
  const auto log_sum = random_array(1);
  const auto gates = random_array(K);
  const IndexBuffer chosen(*kernels_, K);
  kernels_->route_forward(probabilities.data(), log_sum.data(), chosen.data(), gates.data(), 1, E,
                          K);
  for (const std::int32_t expert : values_of(chosen)) {
    EXPECT_GE(expert, 0);
    EXPECT_LT(expert, E);
  }
  EXPECT_TRUE(std::isnan(log_sum.now()[0]));
}

TEST_P(ExpertsTest, GroupsByExpertInOrder) {
  struct Case {
    std::int64_t R, E, K;
  };
  // The last needs several rounds of the largest block; expert 2 gets nothing in any.
  for (const auto [R, E, K] : {Case{1, 3, 1}, Case{37, 5, 2}, Case{1100, 4, 2}}) {
    std::vector<std::int32_t> chosen;
    for (std::int64_t i = 0; i < R * K; ++i) {
      const auto e = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(E - 1)));
      chosen.push_back(e < 2 ? e : e + 1);
    }
    const auto gates = random_array(R * K);
    const IndexBuffer first(*kernels_, E + 1), places(*kernels_, R * K), rows(*kernels_, R * K);
    const auto place_gates = random_array(R * K);
    const auto load = random_array(E);
    kernels_->group_by_expert(first.data(), places.data(), rows.data(), place_gates.data(),
                              load.data(), indices(chosen).data(), gates.data(), R, E, K);
    std::vector<std::int32_t> order(static_cast<std::size_t>(R * K));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return chosen[i]; });
    std::vector<std::int32_t> expected_places(order.size()), expected_rows, expected_first;
    Array expected_gates, expected_load;
    for (std::size_t place = 0; place < order.size(); ++place) {
      expected_places[order[place]] = static_cast<std::int32_t>(place);
      expected_rows.push_back(order[place] / static_cast<std::int32_t>(K));
      expected_gates.push_back(gates.start[order[place]]);
    }
    for (std::int32_t e = 0; e <= E; ++e) {
      const auto before =
          std::ranges::count_if(chosen, [&](std::int32_t expert) { return expert < e; });
      expected_first.push_back(static_cast<std::int32_t>(before));
    }
    for (std::int32_t e = 0; e < E; ++e) {
      expected_load.push_back(static_cast<double>(std::ranges::count(chosen, e)) /
                              static_cast<double>(R * K));
    }
    EXPECT_EQ(values_of(first), expected_first);
    EXPECT_EQ(values_of(places), expected_places);
    EXPECT_EQ(values_of(rows), expected_rows);
    expect_near(place_gates, expected_gates, 0, "gates");
    expect_near(load, expected_load, 1e-7, "load");
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
  kernels_->gather_rows(y.data(), x.data(), indices(rows).data(), scales.data(), 3, C);
  expect_near(y, scaled, tolerance(), "scaled");
  kernels_->gather_rows(y.data(), x.data(), indices(rows).data(), nullptr, 3, C);
  expect_near(y, plain, 0, "plain");

  const auto add = random_array(3 * C);
  Array change(R * C, 0.0);
  for (std::int64_t i = 0; i < 3 * C; ++i) change[rows[i / C] * C + i % C] = add.start[i];
  kernels_->scatter_rows(x.data(), add.data(), indices(rows).data(), 3, C);
  expect_added(x, change, tolerance(), "scattered");
}

TEST_P(ExpertsTest, CombineForwardAndBackward) {
  constexpr std::int64_t R = 5, C = 18, K = 2;
  std::vector<std::int32_t> places = {3, 9, 0, 1, 8, 2, 5, 4, 7, 6};
  const auto in = random_array(R * C);
  const auto y = random_array(R * K * C);
  const auto gates = random_array(R * K);
  const auto out = random_array(R * C);
  kernels_->combine_forward(out.data(), in.data(), y.data(), indices(places).data(), gates.data(),
                            R, C, K);
  const auto combined = [&](const Array& gate) {
    Array result = in.start;
    for (std::int64_t i = 0; i < R * K * C; ++i) {
      const std::int64_t slot = i / C;
      result[slot / K * C + i % C] += gate[slot] * y.start[places[slot] * C + i % C];
    }
    return result;
  };
  expect_near(out, combined(gates.start), tolerance(), "out");

  const auto d_out = random_array(R * C);
  const auto d_gates = random_array(R * K);
  kernels_->combine_backward(d_gates.data(), d_out.data(), y.data(), indices(places).data(), R, C,
                             K);
  const auto loss = [&](const Array& gate) { return reference::dot(combined(gate), d_out.start); };
  expect_near(d_gates, reference::numeric_gradient(loss, gates.start), tolerance(), "d_gates");
}

}  // namespace
}  // namespace archipelago::kernels
