#include "sync/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"
#include "sync/norms.h"

namespace archipelago::sync {
namespace {

constexpr auto kRda = MergeRule::radial_directional;
constexpr auto kMean = MergeRule::mean;

struct State {
  std::vector<float> theta;
  std::vector<float> momentum;
};

State merged(const State& state, const std::vector<MergePiece>& pieces,
             const std::vector<std::vector<float>>& learners, const std::vector<double>& weights,
             OuterSettings outer = {}, int threads = 1) {
  std::vector<MergeInput> inputs;
  for (std::size_t i = 0; i < learners.size(); ++i) inputs.push_back({learners[i], weights[i]});
  State after = {std::vector<float>(state.theta.size()), std::vector<float>(state.theta.size())};
  merge_fragment(pieces, inputs, outer, {state.theta, state.momentum},
                 {after.theta, after.momentum}, threads);
  return after;
}

// The formulas of merge.h word for word in double precision, one learner and element at a time.
State reference(const State& state, const std::vector<MergePiece>& pieces,
                const std::vector<std::vector<float>>& learners, const std::vector<double>& weights,
                OuterSettings outer) {
  State result = state;
  double total = 0;
  for (const double weight : weights) total += weight;
  if (total == 0) return result;
  for (const MergePiece& piece : pieces) {
    std::vector<double> mean(piece.size, 0);
    std::vector<double> direction(piece.size, 0);
    double radius = 0;
    for (std::size_t i = 0; i < learners.size(); ++i) {
      double norm = 0;
      for (std::int64_t k = 0; k < piece.size; ++k) {
        norm += std::pow(double{state.theta[piece.offset + k]} - learners[i][piece.offset + k], 2);
      }
      norm = std::sqrt(norm);
      radius += weights[i] * norm / total;
      for (std::int64_t k = 0; k < piece.size; ++k) {
        const double delta = double{state.theta[piece.offset + k]} - learners[i][piece.offset + k];
        mean[k] += weights[i] * delta / total;
        if (norm > 0) direction[k] += weights[i] * delta / norm / total;
      }
    }
    double length = 0;
    for (const double value : direction) length += value * value;
    length = std::sqrt(length);
    for (std::int64_t k = 0; k < piece.size; ++k) {
      const bool radial = piece.rule == kRda && length > 1e-6;
      const double delta = radial ? radius * direction[k] / length : mean[k];
      const double m = outer.momentum * state.momentum[piece.offset + k] + delta;
      result.momentum[piece.offset + k] = static_cast<float>(m);
      result.theta[piece.offset + k] = static_cast<float>(state.theta[piece.offset + k] -
                                                          outer.lr * (delta + outer.momentum * m));
    }
  }
  return result;
}

TEST(Merge, NesterovStepByHand) {
  // Delta = 1 - 0.5 = 0.5; m = 0.9*2 + 0.5 = 2.3; theta = 1 - 0.7*(0.5 + 0.9*2.3) = -0.799.
  const State after = merged({{1}, {2}}, {{0, 1, kMean}}, {{0.5F}}, {4});
  EXPECT_FLOAT_EQ(after.momentum[0], 2.3F);
  EXPECT_FLOAT_EQ(after.theta[0], -0.799F);
}

TEST(Merge, WeightedMeanByHand) {
  // Deltas 3 and -1 with weights 1 and 3: mean 0.
  const State after = merged({{2}, {0}}, {{0, 1, kMean}}, {{-1}, {3}}, {1, 3});
  EXPECT_FLOAT_EQ(after.theta[0], 2);
  EXPECT_FLOAT_EQ(after.momentum[0], 0);
}

TEST(Merge, RadialDirectionalByHand) {
  // Deltas (3, 0) and (0, 1), equal weights: radius 2, direction (1, 1)/sqrt(2).
  const State after =
      merged({{0, 0}, {0, 0}}, {{0, 2, kRda}}, {{-3, 0}, {0, -1}}, {5, 5}, {1.0, 0.0});
  EXPECT_NEAR(after.momentum[0], std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(after.momentum[1], std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(after.theta[0], -std::sqrt(2.0), 1e-6);
}

TEST(Merge, OppositeDirectionsFallBackToTheMean) {
  // Deltas (2, 0) and (-1, 0), equal weights: no mean direction; mean delta (0.5, 0).
  const State after =
      merged({{0, 0}, {0, 0}}, {{0, 2, kRda}}, {{-2, 0}, {1, 0}}, {1, 1}, {1.0, 0.0});
  EXPECT_FLOAT_EQ(after.theta[0], -0.5F);
  EXPECT_FLOAT_EQ(after.theta[1], 0);
}

TEST(Merge, ALearnerThatDidNotMoveHasNoDirection) {
  // Deltas (4, 0) and 0, equal weights: radius 2, direction (1, 0).
  const State after = merged({{4, 1}, {0, 0}}, {{0, 2, kRda}}, {{0, 1}, {4, 1}}, {1, 1}, {1, 0});
  EXPECT_FLOAT_EQ(after.theta[0], 2);
  EXPECT_FLOAT_EQ(after.theta[1], 1);
}

TEST(Merge, NobodyMoved) {
  const State after = merged({{4, 1}, {1, 0}}, {{0, 2, kRda}}, {{4, 1}, {4, 1}}, {1, 1});
  EXPECT_FLOAT_EQ(after.momentum[0], 0.9F);  // momentum alone goes on
  EXPECT_FLOAT_EQ(after.theta[0], 4 - 0.7F * 0.9F * 0.9F);
}

TEST(Merge, WeightZeroIsIgnoredEvenWhenNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const State with = merged({{1, 2}, {0, 0}}, {{0, 2, kRda}}, {{0, 1}, {nan, nan}}, {2, 0});
  const State without = merged({{1, 2}, {0, 0}}, {{0, 2, kRda}}, {{0, 1}}, {2});
  EXPECT_EQ(with.theta, without.theta);
  EXPECT_EQ(with.momentum, without.momentum);
}

TEST(Merge, NoWeightChangesNothing) {
  const State before = {{1, 2}, {3, 4}};
  const State after = merged(before, {{0, 2, kRda}}, {{0, 1}}, {0});
  EXPECT_EQ(after.theta, before.theta);
  EXPECT_EQ(after.momentum, before.momentum);
}

class MergeReference : public testing::TestWithParam<int> {};

// Sizes on both sides of vector widths and block sizes, every count of learners, offsets that are
// not aligned, momentum that starts non-zero.
TEST_P(MergeReference, AgreesWithDoublePrecision) {
  const int learners = GetParam();
  Random random(static_cast<std::uint64_t>(learners));
  const std::vector<MergePiece> pieces = {{0, 1, kRda},          {1, 7, kMean},
                                          {8, 33, kRda},         {41, 16384, kRda},
                                          {16425, 16385, kMean}, {32810, 70001, kRda}};
  const std::int64_t size = 32810 + 70001;
  State before;
  for (std::int64_t k = 0; k < size; ++k) {
    before.theta.push_back(static_cast<float>(random.normal()));
    before.momentum.push_back(static_cast<float>(0.1 * random.normal()));
  }
  std::vector<std::vector<float>> values(learners, before.theta);
  std::vector<double> weights;
  for (auto& learner : values) {
    const double scale = 0.01 * (1 + random.uniform());
    for (float& value : learner) value -= static_cast<float>(scale * random.normal());
    weights.push_back(1e6 * (0.5 + random.uniform()));
  }
  const OuterSettings outer = {0.6, 0.85};
  const State expected = reference(before, pieces, values, weights, outer);
  const State actual = merged(before, pieces, values, weights, outer, 2);
  for (std::int64_t k = 0; k < size; ++k) {
    ASSERT_NEAR(actual.theta[k], expected.theta[k], 2e-6) << "element " << k;
    ASSERT_NEAR(actual.momentum[k], expected.momentum[k], 2e-6) << "element " << k;
  }
  for (const int threads : {1, 3}) {
    const State again = merged(before, pieces, values, weights, outer, threads);
    ASSERT_EQ(again.theta, actual.theta) << threads << " threads";
    ASSERT_EQ(again.momentum, actual.momentum) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Learners, MergeReference, testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 16, 33));

// Goes over the values in steps of `step` elements.
SquaredNorms norms_of(const std::vector<MergePiece>& pieces, const std::vector<float>& theta,
                      const std::vector<float>& values, std::int64_t step) {
  SquaredNorms norms(pieces);
  const auto size = static_cast<std::int64_t>(theta.size());
  for (std::int64_t end = 0; end < size;) {
    end = std::min(end + step, size);
    norms.add(theta, values, end);
  }
  return norms;
}

SquaredNorms norms_of_one(const std::vector<float>& theta, const std::vector<float>& values) {
  static std::vector<MergePiece> pieces;
  pieces = {{0, static_cast<std::int64_t>(theta.size()), kRda}};
  return norms_of(pieces, theta, values, 1000);
}

TEST(SquaredNorms, ByHandAndInDoublePrecision) {
  EXPECT_DOUBLE_EQ(norms_of_one({1, 2}, {4, -2}).norm(), 5);
  // In single precision the small terms would vanish beside the first one.
  std::vector<float> a(100001, 1e-4F);
  a[0] = 1e3F;
  const std::vector<float> zero(a.size(), 0);
  const double small = double{1e-4F} * double{1e-4F};
  EXPECT_NEAR(norms_of_one(a, zero).norm(), std::sqrt(1e6 + 1e5 * small), 1e-9);
}

TEST(SquaredNorms, AreNotFiniteWhereAnElementIsNot) {
  std::vector<float> a(1000, 1);
  const std::vector<float> b(1000, 1);
  a[999] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(norms_of_one(a, b).norm()));
  a[999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(norms_of_one(a, b).norm()));
  EXPECT_FALSE(std::isfinite(norms_of_one(b, a).norm()));
}

// However a fragment was cut on its arrival, a merge with its norms is the merge without, to the
// last bit; and each tensor's norm is its own.
TEST(SquaredNorms, ThatCameWithAFragmentMergeToTheSameBits) {
  const std::vector<MergePiece> pieces = {
      {0, 5, kRda}, {5, kBlock + 3, kRda}, {kBlock + 8, 70, kMean}, {kBlock + 78, 40'000, kRda}};
  const std::size_t size = kBlock + 78 + 40'000;
  Random random(1);
  State before;
  for (std::size_t k = 0; k < size; ++k) {
    before.theta.push_back(static_cast<float>(random.normal()));
    before.momentum.push_back(static_cast<float>(0.1 * random.normal()));
  }
  std::vector<std::vector<float>> values(3, before.theta);
  const std::vector<double> weights = {1, 2, 5};
  for (auto& learner : values) {
    for (float& value : learner) value += static_cast<float>(0.01 * random.normal());
  }
  const State without = merged(before, pieces, values, weights);
  for (const std::int64_t step :
       {std::int64_t{1}, std::int64_t{999}, kBlock, std::int64_t{1 << 20}}) {
    std::vector<SquaredNorms> norms;
    std::vector<MergeInput> inputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      norms.push_back(norms_of(pieces, before.theta, values[i], step));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      inputs.push_back({values[i], weights[i], norms[i].of_pieces()});
    }
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      double square = 0;
      for (std::int64_t k = pieces[p].offset; k < pieces[p].offset + pieces[p].size; ++k) {
        square += std::pow(double{before.theta[k]} - double{values[1][k]}, 2);
      }
      ASSERT_NEAR(norms[1].of_pieces()[p], square, 1e-6 * square) << "tensor " << p;
    }
    State with = {std::vector<float>(size), std::vector<float>(size)};
    merge_fragment(pieces, inputs, {}, {before.theta, before.momentum}, {with.theta, with.momentum},
                   2);
    ASSERT_EQ(with.theta, without.theta) << "steps of " << step;
    ASSERT_EQ(with.momentum, without.momentum) << "steps of " << step;
  }
}

}  // namespace
}  // namespace archipelago::sync
