#include "baseline/elastic_members.h"

#include <gtest/gtest.h>

namespace archipelago::baseline {
namespace {

using Numbers = std::vector<int>;

// A coordinator, then islands of two ranks: 1-2, 3-4, ...
runtime::Layout layout(int islands) {
  return {.merging = 1, .syncers = 1, .islands = islands, .ranks_per_island = 2};
}

Numbers ranks(const std::vector<RingMember>& ring) {
  Numbers numbers;
  for (const RingMember& member : ring) numbers.push_back(member.rank);
  return numbers;
}

TEST(ElasticMembersTest, TheFirstIslandsPlayTheLearners) {
  const ElasticMembers members(layout(3), 2);
  EXPECT_EQ(ranks(members.ring()), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(members.spare_islands(), Numbers{2});
  EXPECT_EQ(members.living_ranks(), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(members.incarnation(1), 0);
}

TEST(ElasticMembersTest, AnIslandIsLostWithItsFirstRankAndOnlyOnce) {
  ElasticMembers members(layout(2), 2);
  EXPECT_EQ(members.lose(2), 0);
  EXPECT_EQ(members.lose(1), std::nullopt);
  EXPECT_EQ(members.living_learners(), Numbers{1});
  EXPECT_EQ(ranks(members.ring()), (Numbers{3, 4}));
  // No spare: not even what is left of the lost island.
  EXPECT_TRUE(members.fill().empty());
  EXPECT_EQ(members.living_ranks(), (Numbers{3, 4}));
}

TEST(ElasticMembersTest, ASpareTakesTheLearnersPlaceInTheRing) {
  ElasticMembers members(layout(4), 2);
  EXPECT_EQ(members.lose(8), std::nullopt);  // a spare
  EXPECT_EQ(members.lose(1), 0);
  EXPECT_EQ(members.fill(), Numbers{0});
  EXPECT_EQ(members.island_of(0), 2);
  EXPECT_EQ(members.incarnation(0), 1);
  EXPECT_EQ(ranks(members.ring()), (Numbers{5, 6, 3, 4}));
  EXPECT_TRUE(members.spare_islands().empty());
  EXPECT_EQ(members.living_ranks(), (Numbers{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(members.lose(5), 0);
  EXPECT_TRUE(members.fill().empty());
  EXPECT_EQ(ranks(members.ring()), (Numbers{3, 4}));
}

}  // namespace
}  // namespace archipelago::baseline
