#include "runtime/asks.h"

#include <gtest/gtest.h>

namespace archipelago::runtime {
namespace {

link::DownHeader ask(std::int64_t round, int fragment, std::int32_t version) {
  link::DownHeader header;
  header.kind = link::DownKind::ask;
  header.round = round;
  header.fragment = fragment;
  header.version = version;
  return header;
}

link::DownHeader published(int fragment, std::int32_t version) {
  link::DownHeader header;
  header.kind = link::DownKind::fragment;
  header.fragment = fragment;
  header.version = version;
  return header;
}

std::vector<std::int64_t> rounds(const Asks& asks) {
  std::vector<std::int64_t> numbers;
  for (const auto& one : asks) numbers.push_back(one.round);
  return numbers;
}

TEST(AsksTest, NewestFirstAndNoneForgotten) {
  Asks asks;
  for (int round = 1; round <= 6; ++round) remember(asks, ask(round, round % 6, 0));
  EXPECT_EQ(rounds(asks), (std::vector<std::int64_t>{6, 5, 4, 3, 2, 1}));
}

TEST(AsksTest, ANewerRoundOfTheFragmentReplacesTheOlder) {
  Asks asks;
  remember(asks, ask(1, 0, 0));
  remember(asks, ask(2, 1, 0));
  remember(asks, ask(3, 0, 1));
  EXPECT_EQ(rounds(asks), (std::vector<std::int64_t>{3, 2}));
}

TEST(AsksTest, APublishedFragmentClosesItsRound) {
  Asks asks;
  remember(asks, ask(1, 0, 4));
  remember(asks, ask(2, 1, 4));
  forget_closed(asks, published(0, 5));
  EXPECT_EQ(rounds(asks), (std::vector<std::int64_t>{2}));
}

TEST(AsksTest, TheSameVersionSentAgainClosesNothing) {
  Asks asks;
  remember(asks, ask(1, 0, 4));
  forget_closed(asks, published(0, 4));  // a learner told to take the global state
  forget_closed(asks, published(1, 9));
  EXPECT_EQ(rounds(asks), (std::vector<std::int64_t>{1}));
}

}  // namespace
}  // namespace archipelago::runtime
