#include "fragment/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/random.h"

namespace archipelago::fragment {
namespace {

std::vector<TensorExtent> packed_tensors(const std::vector<std::int64_t>& sizes) {
  std::vector<TensorExtent> tensors;
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    tensors.push_back({offset, size});
    offset += size;
  }
  return tensors;
}

std::vector<std::vector<int>> members(const std::vector<Fragment>& fragments) {
  std::vector<std::vector<int>> result;
  for (const Fragment& fragment : fragments) {
    result.emplace_back();
    for (const Piece& piece : fragment.pieces) result.back().push_back(piece.tensor);
  }
  return result;
}

TEST(Partition, PutsLongestFirstIntoLeastFilledTiesByIndex) {
  const auto fragments = partition(packed_tensors({3, 5, 5, 2, 4, 1}), 3);
  // By hand: 5 -> f0, 5 -> f1, 4 -> f2, 3 -> f2 (now 7), 2 -> f0 (7), 1 -> f1 (6).
  EXPECT_EQ(members(fragments), (std::vector<std::vector<int>>{{1, 3}, {2, 5}, {4, 0}}));
  EXPECT_EQ(fragments[0].size, 7);
  EXPECT_EQ(fragments[1].size, 6);
  EXPECT_EQ(fragments[2].size, 7);
}

TEST(Partition, LeavesOutEmptyFragments) {
  EXPECT_EQ(partition(packed_tensors({4, 4}), 24).size(), 2U);
  EXPECT_TRUE(partition({}, 24).empty());
}

TEST(Partition, HoldsEveryTensorOnceWithinFourThirdsOfTheBest) {
  Random random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::int64_t> sizes(1 + random.below(60));
    for (auto& size : sizes) size = 1 + static_cast<std::int64_t>(random.below(1000));
    const int count = 1 + static_cast<int>(random.below(24));
    const auto tensors = packed_tensors(sizes);
    const auto fragments = partition(tensors, count);
    std::vector<int> seen(sizes.size(), 0);
    std::int64_t fullest = 0;
    for (const Fragment& fragment : fragments) {
      std::int64_t filled = 0;
      for (const Piece& piece : fragment.pieces) {
        ++seen[piece.tensor];
        EXPECT_EQ(piece.offset, tensors[piece.tensor].offset);
        EXPECT_EQ(piece.size, sizes[piece.tensor]);
        filled += piece.size;
      }
      EXPECT_EQ(fragment.size, filled);
      fullest = std::max(fullest, filled);
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    // Graham 1969: LPT is within 4/3 of the best; a lower bound of the best is the mean, the
    // longest tensor, and the two shortest of the `count` + 1 longest together.
    const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    std::sort(sizes.rbegin(), sizes.rend());
    double best = std::max(static_cast<double>(sum) / count, static_cast<double>(sizes[0]));
    if (static_cast<int>(sizes.size()) > count) {
      best = std::max(best, static_cast<double>(sizes[count - 1] + sizes[count]));
    }
    EXPECT_LE(static_cast<double>(fullest), best * 4 / 3 + 1) << "trial " << trial;
  }
}

TEST(GatherScatter, CopiesThePiecesInOrderAndBack) {
  const auto fragments = partition(packed_tensors({2, 3, 4}), 2);
  ASSERT_EQ(members(fragments), (std::vector<std::vector<int>>{{2}, {1, 0}}));
  std::vector<float> flat(9);
  std::iota(flat.begin(), flat.end(), 1.0F);
  std::vector<float> packed(5);
  gather(fragments[1], flat, packed);
  EXPECT_EQ(packed, (std::vector<float>{3, 4, 5, 1, 2}));
  for (float& value : packed) value *= 10;
  scatter(fragments[1], packed, flat);
  EXPECT_EQ(flat, (std::vector<float>{10, 20, 30, 40, 50, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace archipelago::fragment
