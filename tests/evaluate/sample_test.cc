#include "evaluate/sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "pair_model.h"

namespace archipelago::evaluate {
namespace {

constexpr std::array<float, 4> kLogits = {0.5F, 2.0F, -1.0F, 2.0F};

std::array<double, 4> frequencies(const Sampling& sampling) {
  constexpr int kDraws = 40'000;
  Random random(3);
  std::array<double, 4> shares{};
  for (int i = 0; i < kDraws; ++i) {
    shares[static_cast<std::size_t>(draw_token(kLogits, sampling, random))] += 1.0 / kDraws;
  }
  return shares;
}

TEST(DrawToken, FollowsTheSoftmax) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    const auto shares = frequencies({.temperature = temperature, .top_k = 0, .vocabulary = 4});
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(logit / temperature);
    for (std::size_t v = 0; v < 4; ++v) {
      const double expected = std::exp(kLogits[v] / temperature) / sum;
      // Five standard deviations.
      EXPECT_NEAR(shares[v], expected, 5 * std::sqrt(expected / 40'000)) << temperature << ' ' << v;
    }
  }
}

TEST(DrawToken, TopKLeavesTheOthersOut) {
  const auto shares = frequencies({.temperature = 1, .top_k = 2, .vocabulary = 4});
  EXPECT_EQ(shares[0], 0);
  EXPECT_EQ(shares[2], 0);
  EXPECT_NEAR(shares[1], 0.5, 0.02);
}

TEST(DrawToken, WithoutTemperatureTheLikeliestWins) {
  Random random(1);
  EXPECT_EQ(draw_token(kLogits, {.temperature = 0, .top_k = 0, .vocabulary = 4}, random), 1);
  EXPECT_EQ(draw_token(kLogits, {.temperature = 1, .top_k = 1, .vocabulary = 4}, random), 1);
}

config::Model example_config() {
  config::Model config;
  config.context = 3;
  config.vocabulary = PairModel::kVocabulary;
  return config;
}

std::vector<std::int32_t> continued(std::uint64_t seed, const Sampling& sampling) {
  PairModel model(3, 1);
  Random random(seed);
  std::vector<std::int32_t> tokens = {4, 2};
  int calls = 0;
  continue_tokens(model, example_config(), tokens, 50, sampling, random,
                  [&calls](std::int32_t) { ++calls; });
  EXPECT_EQ(tokens.size(), 52u);
  EXPECT_EQ(calls, 50);
  return tokens;
}

TEST(ContinueTokens, SameSeedSameText) {
  const Sampling sampling{.temperature = 1, .top_k = 0, .vocabulary = 10};
  EXPECT_EQ(continued(5, sampling), continued(5, sampling));
  EXPECT_NE(continued(5, sampling), continued(6, sampling));
}

TEST(ContinueTokens, StaysWithinItsVocabulary) {
  for (const std::int32_t token : continued(5, {.temperature = 1, .top_k = 0, .vocabulary = 7})) {
    EXPECT_LT(token, 7);
  }
}

TEST(ContinueTokens, GreedyFollowsTheLargestLogit) {
  const auto tokens = continued(5, {.temperature = 0, .top_k = 0, .vocabulary = 10});
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    for (int v = 0; v < 10; ++v) {
      EXPECT_LE(PairModel::logit(tokens[i - 1], v), PairModel::logit(tokens[i - 1], tokens[i]));
    }
  }
}

}  // namespace
}  // namespace archipelago::evaluate
