// Where updates travel, learners come to the same bits of a version whichever way they got it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "runtime/fragment_decoder.h"
#include "runtime/fragment_sender.h"
#include "tests/runtime/fake_link.h"
#include "tests/runtime/tiny_setup.h"

namespace archipelago::runtime {
namespace {

using fragment::Encoding;

constexpr int kFragments = 4;
constexpr int kFragment = 1;  // of several blocks

Setup setup_with(Encoding down) {
  Setup setup = tiny_setup(kFragments);
  setup.wire = {Encoding::e3m0, down};
  return setup;
}

// What a learner's communication thread makes of what it is sent.
class Learner {
 public:
  explicit Learner(const Setup& setup) : decoder_(setup.wire, kFragments, 1) {}

  bool take(const FakeSyncerEnd::Sent& sent) {
    link::DownMessage message{sent.header, {sent.data.bytes().begin(), sent.data.bytes().end()}};
    message.header.bytes = std::ssize(message.data);
    message.header.checksum = sent.data.checksum();
    const auto fragment = decoder_.decode(std::move(message));
    if (!fragment) return false;
    EXPECT_EQ(fragment->header.bytes, std::ssize(*fragment->data));
    held[fragment->header.fragment] = {fragment->header.version, *fragment->data};
    return true;
  }

  std::map<int, std::pair<std::int32_t, link::Bytes>> held;  // version, data

 private:
  FragmentDecoder decoder_;
};

class UpdatesTest : public testing::TestWithParam<Encoding> {
 protected:
  UpdatesTest() {
    for (int peer = 0; peer < 2; ++peer) sender_.add_peer();
  }

  // The next version, somewhere around the present one.
  void merge(int fragment = kFragment) {
    auto theta = std::make_shared<link::Values>(*state_.theta(fragment));
    for (float& value : *theta) value += static_cast<float>(0.1 * random_.normal());
    publish(fragment, theta);
  }

  void publish(int fragment, const std::shared_ptr<const link::Values>& theta) {
    state_.adopt({fragment, theta, theta, {}});
    sender_.mark(0, fragment);
  }

  // Sends all that is to be sent; what has gone to the peer since the last time.
  std::vector<FakeSyncerEnd::Sent> sent_to(int peer) {
    for (std::size_t before = link_.sent.size();; before = link_.sent.size()) {
      sender_.pump(0);
      if (link_.sent.size() == before) break;
      for (int each = 0; each < 2; ++each) {
        while (link_.data_in_flight(each) > 0) link_.let_one_leave(each);
      }
    }
    std::vector<FakeSyncerEnd::Sent> sent;
    for (auto& message : std::exchange(link_.sent, {})) {
      if (message.peer == peer) sent.push_back(std::move(message));
    }
    return sent;
  }

  bool is_update(const FakeSyncerEnd::Sent& sent) const {
    return sent.header.encoding == static_cast<std::int32_t>(setup_.wire.down);
  }

  void expect_newest(const Learner& learner, int fragment = kFragment) {
    const auto bytes = state_.payload(fragment).bytes();
    const auto& [version, data] = learner.held.at(fragment);
    EXPECT_EQ(version, state_.version(fragment));
    EXPECT_TRUE(std::ranges::equal(data, bytes));
  }

  runtime::Setup setup_ = setup_with(GetParam());
  GlobalState state_{setup_};
  FakeSyncerEnd link_{2};
  FragmentSender sender_{link_, state_, kFragments};
  Random random_{5};
};

TEST_P(UpdatesTest, AllWaysLeadToTheSameBits) {
  GlobalState standby(setup_);
  Learner follower(setup_);
  sender_.mark_all(0);
  for (const auto& sent : sent_to(0)) {
    EXPECT_FALSE(is_update(sent));
    ASSERT_TRUE(follower.take(sent));
  }
  for (int round = 0; round < 4 * kFragments; ++round) {
    const int fragment = round % kFragments;
    link::Values moved = *state_.theta(fragment);
    for (float& value : moved) value += static_cast<float>(0.1 * random_.normal());
    const auto merged = state_.merge(fragment, {{moved, 1.0}});
    state_.adopt(merged);
    standby.adopt({fragment, merged.theta, merged.momentum, {}});
    sender_.mark(0, fragment);
    const auto sent = sent_to(0);
    ASSERT_EQ(sent.size(), 1U);
    const auto update = fragment::encoded_size(setup_.wire.down, sent[0].header.elements);
    const auto whole = fragment::encoded_size(setup_.wire.whole(), sent[0].header.elements);
    EXPECT_EQ(std::ssize(sent[0].data.bytes()), std::min(update, whole));
    ASSERT_TRUE(follower.take(sent[0]));
    expect_newest(follower, fragment);
  }
  Learner joiner(setup_);
  sender_.mark_all(1);
  for (const auto& sent : sent_to(1)) ASSERT_TRUE(joiner.take(sent));
  for (int p = 0; p < kFragments; ++p) {
    expect_newest(joiner, p);
    EXPECT_TRUE(std::ranges::equal(standby.payload(p).bytes(), state_.payload(p).bytes()));
  }
}

TEST_P(UpdatesTest, WhatAnUpdateLosesIsInTheNext) {
  auto theta = std::make_shared<link::Values>(*state_.theta(kFragment));
  double largest = 0;
  for (float& value : *theta) {
    value += static_cast<float>(random_.normal());
    largest = std::max(largest, std::abs(double{value}));
  }
  for (int version = 0; version < 30; ++version) publish(kFragment, theta);
  link::Values scratch;
  const auto held = fragment::Codec(1).read(setup_.wire.whole(), state_.payload(kFragment).bytes(),
                                            std::ssize(*theta), scratch);
  for (std::size_t i = 0; i < theta->size(); ++i) {
    EXPECT_NEAR((*held)[i], (*theta)[i], largest / 256) << "as near as the whole encoding can be";
  }
}

TEST_P(UpdatesTest, WhoIsBehindGetsTheVersionsBetweenOrTheWhole) {
  const auto elements = setup_.fragments[kFragment].size;
  const auto most = (fragment::encoded_size(setup_.wire.whole(), elements) - 1) /
                    fragment::encoded_size(setup_.wire.down, elements);
  EXPECT_GE(most, GetParam() == Encoding::e3m0 ? 2 : 1);
  Learner learner(setup_);
  sender_.mark_all(0);
  for (const auto& sent : sent_to(0)) learner.take(sent);
  for (int behind = 1; behind <= 6; ++behind) {
    for (int version = 0; version < behind; ++version) merge();
    const auto sent = sent_to(0);
    ASSERT_EQ(std::ssize(sent), behind <= most ? behind : 1);
    for (const auto& message : sent) {
      EXPECT_EQ(is_update(message), behind <= most) << behind;
      ASSERT_TRUE(learner.take(message));
    }
    expect_newest(learner);
  }
}

TEST_P(UpdatesTest, AnUpdateThatIsLostIsMadeGoodByTheWhole) {
  Learner learner(setup_);
  sender_.mark_all(0);
  for (const auto& sent : sent_to(0)) learner.take(sent);
  merge();
  ASSERT_EQ(sent_to(0).size(), 1U);  // it does not arrive
  merge();
  const auto next = sent_to(0);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_FALSE(learner.take(next[0]));
  EXPECT_EQ(learner.held.at(kFragment).first, 0);
  sender_.mark_older(0, std::vector<std::int32_t>{0, 0, 0, 0}, state_.versions());
  const auto again = sent_to(0);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_FALSE(is_update(again[0]));
  EXPECT_TRUE(learner.take(again[0]));
  expect_newest(learner);
  merge();
  const auto after = sent_to(0);
  EXPECT_TRUE(is_update(after.at(0)) && learner.take(after.at(0)));
  expect_newest(learner);
}

TEST_P(UpdatesTest, AnUpdateIsTakenOnceAndOnlyIfItLeadsToWhatWasPublished) {
  Learner learner(setup_);
  sender_.mark_all(0);
  for (const auto& sent : sent_to(0)) learner.take(sent);
  merge();
  const auto good = sent_to(0).at(0);
  auto wrong = good;
  wrong.header.whole_checksum ^= 1;
  EXPECT_FALSE(learner.take(wrong));
  wrong = good;
  wrong.header.elements += 64;
  EXPECT_FALSE(learner.take(wrong));
  EXPECT_TRUE(learner.take(good));
  EXPECT_FALSE(learner.take(good));
  expect_newest(learner);
}

TEST_P(UpdatesTest, ANewLifeIsSentTheWhole) {
  sender_.mark_all(0);
  sent_to(0);
  sender_.begin_life(0, 2, 1);
  merge();
  EXPECT_FALSE(is_update(sent_to(0).at(0)));
  merge();
  EXPECT_TRUE(is_update(sent_to(0).at(0)));
}

TEST_P(UpdatesTest, ARestartBeginsFromTheta) {
  merge();
  checkpoint::Global saved;
  state_.fill(saved);
  GlobalState restarted(setup_, saved);
  EXPECT_FALSE(restarted.update_from(kFragment, 0));
  const auto bytes = fragment::Codec(1).encode(setup_.wire.whole(), *state_.theta(kFragment)).bytes;
  EXPECT_TRUE(std::ranges::equal(restarted.payload(kFragment).bytes(), bytes));
}

INSTANTIATE_TEST_SUITE_P(Encodings, UpdatesTest, testing::Values(Encoding::int8, Encoding::e3m0),
                         [](const auto& encoding) {
                           return encoding.param == Encoding::int8 ? "int8" : "e3m0";
                         });

}  // namespace
}  // namespace archipelago::runtime
