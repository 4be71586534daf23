#include "evaluate/text_loss.h"

#include <gtest/gtest.h>

#include "pair_model.h"

namespace archipelago::evaluate {
namespace {

std::vector<std::uint16_t> example_tokens(std::size_t count) {
  std::vector<std::uint16_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::uint16_t>((i * i + 3) % 10);
  return tokens;
}

// The stand-in looks at the token before only, so that the windows make no difference.
double loss_by_hand(const std::vector<std::uint16_t>& tokens) {
  double sum = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    sum += PairModel::loss_of(tokens[i - 1], tokens[i]);
  }
  return sum / static_cast<double>(tokens.size() - 1);
}

TEST(TextLoss, CountsEveryTokenOnceForAnyLength) {
  const std::int64_t context = 4;
  const std::int64_t batch = 3;
  // Less than a window, whole windows, whole batches, and one token more or less than those.
  for (const std::size_t count : {2, 4, 5, 6, 12, 13, 14, 25, 100}) {
    PairModel model(context, batch);
    const auto tokens = example_tokens(count);
    EXPECT_NEAR(text_loss(model, tokens, context, batch), loss_by_hand(tokens), 1e-6) << count;
  }
}

TEST(TextLoss, NothingToPredictIsZero) {
  PairModel model(4, 3);
  EXPECT_EQ(text_loss(model, {}, 4, 3), 0);
  EXPECT_EQ(text_loss(model, example_tokens(1), 4, 3), 0);
}

}  // namespace
}  // namespace archipelago::evaluate
