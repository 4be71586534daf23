#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "data/token_dataset.h"

namespace archipelago::data {
namespace {

// tokens, context, shards
using Shape = std::tuple<std::int64_t, std::int64_t, int>;

class SequenceOrderTest : public testing::TestWithParam<Shape> {};

// The first tokens of all windows in one epoch of all shards.
std::vector<std::int64_t> epoch_starts(const SequenceOrder& order, int shards, std::int64_t epoch) {
  std::vector<std::int64_t> starts;
  for (int shard = 0; shard < shards; ++shard) {
    const std::int64_t size = order.shards().epoch_size(shard);
    for (std::int64_t i = 0; i < size; ++i) {
      starts.push_back(order.window_start({shard, epoch * size + i}));
    }
  }
  return starts;
}

TEST_P(SequenceOrderTest, EachWindowOnceAnEpoch) {
  const auto [tokens, context, shards] = GetParam();
  const SequenceOrder order(tokens, context, shards, 7);
  const std::int64_t windows = (tokens - 1) / context;
  std::vector<std::int64_t> expected;
  for (std::int64_t w = 0; w < windows; ++w) expected.push_back(w * context);
  for (const std::int64_t epoch : {0, 1, 5}) {
    std::vector<std::int64_t> starts = epoch_starts(order, shards, epoch);
    std::sort(starts.begin(), starts.end());
    EXPECT_EQ(starts, expected) << "epoch " << epoch;
  }
  EXPECT_LT(expected.back() + context, tokens);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SequenceOrderTest,
                         testing::Values(Shape{2, 1, 1}, Shape{5, 1, 4}, Shape{101, 10, 1},
                                         Shape{1000, 7, 3}, Shape{4097, 16, 5}, Shape{65537, 64, 7},
                                         Shape{100'003, 1, 24}));

TEST(SequenceOrder, EpochsAndSeedsDiffer) {
  const SequenceOrder order(10'001, 10, 2, 1);
  const SequenceOrder other(10'001, 10, 2, 2);
  EXPECT_NE(epoch_starts(order, 2, 0), epoch_starts(order, 2, 1));
  EXPECT_NE(epoch_starts(order, 2, 0), epoch_starts(other, 2, 0));
}

// A permutation drawn at random moves a window by a third of all on average, and leaves neighbours
// together with probability 2/n.
TEST(SequenceOrder, Shuffles) {
  const std::int64_t windows = 10'000;
  const SequenceOrder order(windows + 1, 1, 1, 3);
  const std::vector<std::int64_t> starts = epoch_starts(order, 1, 0);
  double distance = 0;
  int neighbours = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    distance += static_cast<double>(std::abs(starts[i] - static_cast<std::int64_t>(i)));
    if (i > 0 && std::abs(starts[i] - starts[i - 1]) == 1) ++neighbours;
  }
  EXPECT_NEAR(distance / static_cast<double>(windows * windows), 1.0 / 3, 0.01);
  EXPECT_LT(neighbours, 12);  // expected 2, standard deviation 1.4
}

TEST(SequenceOrder, TooLittleTextIsRefused) {
  EXPECT_THROW(SequenceOrder(31, 10, 4, 1), Error);
  EXPECT_NO_THROW(SequenceOrder(31, 10, 3, 1));
  EXPECT_THROW(SequenceOrder(0, 10, 1, 1), Error);
}

}  // namespace
}  // namespace archipelago::data
