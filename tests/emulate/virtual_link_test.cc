#include "emulate/virtual_link.h"

#include <gtest/gtest.h>

#include <memory>

namespace archipelago::emulate {
namespace {

// 1000 bytes take 2 seconds, and half a second to arrive.
constexpr Site kSite{1, 4e-6, 0.5};

class VirtualLinkTest : public testing::Test {
 protected:
  VirtualLinkTest() { link_.add_peer(kSite); }

  void run_to(double seconds) {
    while (!timeline_.empty() && timeline_.next_time() <= to_nanoseconds(seconds)) {
      timeline_.run_next();
    }
    timeline_.advance_to(to_nanoseconds(seconds));
  }

  void put(std::int64_t round) {
    link::FragmentHeader header;
    header.round = round;
    link_.put_fragment(0, header, link::Bytes(1000));
  }

  void send(link::DownKind kind, std::size_t bytes) {
    link::DownHeader header;
    header.kind = kind;
    link_.send(
        0, header,
        bytes > 0 ? link::Payload(std::make_shared<const link::Bytes>(bytes)) : link::Payload());
  }

  Timeline timeline_;
  std::vector<double> read_, left_, lost_, room_;
  std::vector<std::pair<double, link::DownKind>> come_;
  VirtualLink link_{timeline_,
                    {.syncer = [this](int) { read_.push_back(timeline_.seconds()); },
                     .left = [this] { left_.push_back(timeline_.seconds()); },
                     .island =
                         [this](int, const link::DownMessage& message) {
                           come_.emplace_back(timeline_.seconds(), message.header.kind);
                         },
                     .room = [this](int) { room_.push_back(timeline_.seconds()); },
                     .lost = [this](int) { lost_.push_back(timeline_.seconds()); }}};
};

using Times = std::vector<double>;

TEST_F(VirtualLinkTest, FragmentsGoUpOneAfterTheOtherInTwoSlots) {
  for (int round = 1; round <= 4; ++round) put(round);
  EXPECT_FALSE(link_.can_stage(0));
  run_to(10);
  EXPECT_EQ(read_, (Times{2.5, 4.5}));
  const auto first = link_.read_fragment(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->header.round, 1);
  EXPECT_EQ(first->data.size(), 1000U);
  link_.acknowledge(0, first->slot);  // heard of at 10.5, when the third begins to leave
  run_to(20);
  EXPECT_EQ(read_, (Times{2.5, 4.5, 13}));
  EXPECT_EQ(room_, (Times{10.5}));
  EXPECT_EQ(link_.read_fragment(0)->header.round, 2);
  EXPECT_EQ(link_.read_fragment(0)->header.round, 3);
  EXPECT_FALSE(link_.read_fragment(0));
}

TEST_F(VirtualLinkTest, AReportWaitsForNoFragment) {
  put(1);
  link_.put_report(0, {});
  run_to(1);
  EXPECT_EQ(read_, (Times{0.5}));
  EXPECT_TRUE(link_.read_report(0));
  EXPECT_FALSE(link_.read_report(0));
}

TEST_F(VirtualLinkTest, WhatGoesDownKeepsItsOrder) {
  send(link::DownKind::fragment, 1000);
  send(link::DownKind::ask, 0);
  EXPECT_EQ(link_.data_in_flight(0), 1);
  run_to(10);
  EXPECT_EQ(link_.data_in_flight(0), 0);
  EXPECT_EQ(left_, (Times{2}));
  ASSERT_EQ(come_.size(), 2U);
  EXPECT_EQ(come_[0], std::pair(2.5, link::DownKind::fragment));
  EXPECT_EQ(come_[1], std::pair(2.5, link::DownKind::ask));
}

TEST_F(VirtualLinkTest, WhatHadNotLeftADeadPeerNeverComes) {
  put(1);
  put(2);
  send(link::DownKind::fragment, 1000);
  run_to(2.2);  // the first has left, the second not; the one down is on its way
  link_.kill(0);
  run_to(10);
  EXPECT_EQ(read_, (Times{2.5}));
  EXPECT_EQ(lost_, (Times{2.7}));
  EXPECT_TRUE(come_.empty());
}

}  // namespace
}  // namespace archipelago::emulate
