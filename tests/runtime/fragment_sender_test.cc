#include "runtime/fragment_sender.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/fake_link.h"
#include "tests/runtime/tiny_setup.h"

namespace archipelago::runtime {
namespace {

constexpr int kFragments = 4;

class FragmentSenderTest : public testing::Test {
 protected:
  FragmentSenderTest() {
    sender_.add_peer();
    sender_.add_peer();
  }

  // Lets everything leave, again and again, until nothing more comes.
  void drain() {
    for (std::size_t before = 0;; before = link_.sent.size()) {
      sender_.pump(0);
      if (link_.sent.size() == before) return;
      for (int peer = 0; peer < 2; ++peer) {
        while (link_.data_in_flight(peer) > 0) link_.let_one_leave(peer);
      }
    }
  }

  void publish(int fragment) {
    auto values = std::make_shared<const link::Values>(*state_.theta(fragment));
    state_.adopt({fragment, values, values, {}});
    sender_.mark(0, fragment);
  }

  std::vector<int> fragments_of(int peer) const {
    std::vector<int> fragments;
    for (const auto& sent : link_.sent) {
      if (sent.peer == peer) fragments.push_back(sent.header.fragment);
    }
    return fragments;
  }

  runtime::Setup setup_ = tiny_setup(kFragments);
  GlobalState state_{setup_};
  FakeSyncerEnd link_{2};
  FragmentSender sender_{link_, state_, kFragments};
};

TEST_F(FragmentSenderTest, SendsNothingUnasked) {
  drain();
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(FragmentSenderTest, SendsValuesVersionAndRunTokens) {
  publish(2);
  sender_.pump(12345);
  ASSERT_EQ(link_.sent.size(), 1U);
  const auto& sent = link_.sent[0];
  EXPECT_EQ(sent.header.kind, link::DownKind::fragment);
  EXPECT_EQ(sent.header.fragment, 2);
  EXPECT_EQ(sent.header.version, 1);
  EXPECT_EQ(sent.header.tokens, 12345);
  EXPECT_EQ(sent.header.elements, static_cast<std::int64_t>(state_.theta(2)->size()));
  EXPECT_EQ(sent.data.bytes().data(), std::as_bytes(std::span(*state_.theta(2))).data())
      << "shared, not copied";
}

TEST_F(FragmentSenderTest, AJoinerGetsEachFragmentOnce) {
  sender_.mark_all(1);
  drain();
  EXPECT_TRUE(fragments_of(0).empty());
  auto fragments = fragments_of(1);
  std::sort(fragments.begin(), fragments.end());
  EXPECT_EQ(fragments, (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(FragmentSenderTest, WhatAPeerReportsOlderIsSentAgain) {
  sender_.mark_older(1, std::vector<std::int32_t>{0, -1, 3, 1},
                     std::vector<std::int32_t>{1, 0, 3, 0});
  drain();
  EXPECT_TRUE(fragments_of(0).empty());
  EXPECT_EQ(fragments_of(1), (std::vector<int>{0, 1}));
}

TEST_F(FragmentSenderTest, ASlowPeerHoldsAtMostTwoInFlightAndHindersNobody) {
  sender_.mark_all(0);
  sender_.mark_all(1);
  sender_.pump(0);
  sender_.pump(0);
  EXPECT_EQ(link_.data_in_flight(0), 2);
  while (fragments_of(1).size() < 4) {
    link_.let_one_leave(1);
    sender_.pump(0);
  }
  EXPECT_EQ(fragments_of(0).size(), 2U);
}

TEST_F(FragmentSenderTest, ASlowPeerSkipsVersionsThatAreOutOfDate) {
  publish(0);
  publish(1);
  sender_.pump(0);  // both are in flight now
  for (int merge = 0; merge < 5; ++merge) publish(3);
  sender_.pump(0);
  EXPECT_EQ(link_.sent.size(), 2U);
  link_.let_one_leave(0);
  drain();
  ASSERT_EQ(link_.sent.size(), 3U);
  EXPECT_EQ(link_.sent[2].header.fragment, 3);
  EXPECT_EQ(link_.sent[2].header.version, 5);
}

TEST_F(FragmentSenderTest, FragmentsTakeTurns) {
  sender_.mark_all(0);
  // One that is published again and again does not keep the others waiting.
  for (int turn = 0; turn < 8; ++turn) {
    publish(0);
    sender_.pump(0);
    while (link_.data_in_flight(0) > 0) link_.let_one_leave(0);
  }
  const auto fragments = fragments_of(0);
  for (int fragment = 1; fragment < kFragments; ++fragment) {
    EXPECT_EQ(std::count(fragments.begin(), fragments.end(), fragment), 1) << fragment;
  }
}

TEST_F(FragmentSenderTest, ClearForgetsWhatWasMeantForTheLifeBefore) {
  sender_.mark_all(0);
  sender_.clear(0);
  drain();
  EXPECT_TRUE(link_.sent.empty());
  sender_.mark(0, 1);
  drain();
  EXPECT_EQ(fragments_of(0), (std::vector<int>{1}));
}

}  // namespace
}  // namespace archipelago::runtime
