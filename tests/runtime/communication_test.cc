#include "runtime/communication.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/chaos.h"
#include "tests/runtime/fake_link.h"

namespace archipelago::runtime {
namespace {

using link::DownKind;

// Waits until `condition` holds; the test's own time limit ends it otherwise.
template <typename Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

link::DownHeader header_of(DownKind kind) {
  link::DownHeader header;
  header.kind = kind;
  return header;
}

link::DownHeader assign(int learner, int incarnation) {
  link::DownHeader header = header_of(DownKind::assign);
  header.learner = learner;
  header.incarnation = incarnation;
  return header;
}

link::DownHeader about(DownKind kind, int fragment, std::int32_t version, std::int64_t round = 0) {
  link::DownHeader header = header_of(kind);
  header.fragment = fragment;
  header.version = version;
  header.round = round;
  return header;
}

link::FragmentHeader fragment_of(std::int64_t round) {
  link::FragmentHeader header;
  header.round = round;
  return header;
}

std::shared_ptr<const kernels::HostArray> values_of(std::int64_t count, float value) {
  auto array = std::make_shared<kernels::HostArray>(new float[static_cast<std::size_t>(count)],
                                                    count, [](float* memory) { delete[] memory; });
  array->resize(count);
  std::ranges::fill(array->values(), value);
  return array;
}

// A leader with a pair to the syncer and to one standby.
class CommunicationTest : public testing::Test {
 protected:
  CommunicationTest() {
    std::vector<std::unique_ptr<link::LeaderEnd>> ends;
    for (FakeLeaderEnd** end : {&syncer_, &standby_}) {
      auto fake = std::make_unique<FakeLeaderEnd>();
      *end = fake.get();
      ends.push_back(std::move(fake));
    }
    communication_ = std::make_unique<Communication>(
        std::move(ends), std::make_unique<FragmentEncoder>(Wire{}, 8, 1),
        std::make_unique<FragmentDecoder>(Wire{}, 8, 1),
        [this](const link::DownHeader& fault) { inflicted_.push_back(fault); });
  }

  // Until the communication thread has taken all that the fake had said.
  static void wait_for_polls(const FakeLeaderEnd& end) {
    const int polls = end.polls();
    wait_until([&] { return end.polls() >= polls + 2; });
  }

  FakeLeaderEnd* syncer_ = nullptr;
  FakeLeaderEnd* standby_ = nullptr;
  std::vector<link::DownHeader> inflicted_;
  std::unique_ptr<Communication> communication_;
};

TEST_F(CommunicationTest, TakesWhatWasSaid) {
  syncer_->say(assign(2, 5));
  syncer_->say(about(DownKind::fragment, 1, 7), {1, 2});
  syncer_->say(about(DownKind::ask, 1, 7, 40));
  syncer_->say(header_of(DownKind::pause));
  syncer_->say(header_of(DownKind::finish));
  wait_for_polls(*syncer_);
  const Inbox inbox = communication_->take();
  ASSERT_TRUE(inbox.order);
  EXPECT_EQ(inbox.order->learner, 2);
  EXPECT_EQ(inbox.order->incarnation, 5);
  ASSERT_EQ(inbox.fragments.size(), 1U);
  EXPECT_EQ(*inbox.fragments.at(1).data, bytes_of({1, 2}));
  ASSERT_EQ(inbox.asks.size(), 1U);
  EXPECT_EQ(inbox.asks[0].round, 40);
  EXPECT_TRUE(inbox.pause);
  EXPECT_TRUE(inbox.finish);
  EXPECT_FALSE(inbox.syncer_lost);

  const Inbox next = communication_->take();
  EXPECT_FALSE(next.order || next.finish || next.pause);
  EXPECT_TRUE(next.fragments.empty() && next.asks.empty());
}

TEST_F(CommunicationTest, AnOrderEndsWhatWasMeantForTheLifeBefore) {
  syncer_->say(about(DownKind::fragment, 0, 1), {1});
  syncer_->say(about(DownKind::ask, 1, 1, 9));
  syncer_->say(header_of(DownKind::pause));
  syncer_->say(assign(1, 2));
  syncer_->say(about(DownKind::fragment, 3, 4), {4});
  wait_for_polls(*syncer_);
  const Inbox inbox = communication_->take();
  EXPECT_EQ(inbox.fragments.size(), 1U);
  EXPECT_EQ(inbox.fragments.count(3), 1U);
  EXPECT_TRUE(inbox.asks.empty());
  EXPECT_FALSE(inbox.pause);
}

TEST_F(CommunicationTest, OnlyTheNewestOfAFragmentStays) {
  syncer_->say(about(DownKind::fragment, 0, 1), {1});
  syncer_->say(about(DownKind::fragment, 0, 2), {2});
  wait_for_polls(*syncer_);
  const Inbox inbox = communication_->take();
  EXPECT_EQ(inbox.fragments.at(0).header.version, 2);
  EXPECT_EQ(*inbox.fragments.at(0).data, bytes_of({2}));
}

TEST_F(CommunicationTest, RemembersEachOpenRound) {
  for (int round = 1; round <= 5; ++round) syncer_->say(about(DownKind::ask, round, 0, round));
  syncer_->say(about(DownKind::fragment, 4, 1), {1});  // round 4 is over
  wait_for_polls(*syncer_);
  std::vector<std::int64_t> rounds;
  for (const auto& ask : communication_->take().asks) rounds.push_back(ask.round);
  EXPECT_EQ(rounds, (std::vector<std::int64_t>{5, 3, 2, 1}));
}

TEST_F(CommunicationTest, TheLastPostedReportGoesUp) {
  EXPECT_TRUE(syncer_->reports().empty());
  link::Report report;
  for (int step = 1; step <= 50; ++step) {
    report.step = step;
    communication_->post(report);
  }
  communication_->flush(60);
  ASSERT_FALSE(syncer_->reports().empty());
  EXPECT_EQ(syncer_->reports().back().step, 50);
  EXPECT_TRUE(standby_->reports().empty());
}

TEST_F(CommunicationTest, TheReportIsRepeatedAsAHeartbeat) {
  communication_->post({});
  wait_until([&] { return syncer_->reports().size() >= 3; });
}

TEST_F(CommunicationTest, FragmentsWaitForAFreeSlotAndKeepTheirOrder) {
  for (int round = 1; round <= 2; ++round) {
    ASSERT_TRUE(communication_->can_stage());
    communication_->stage(fragment_of(round), values_of(3, static_cast<float>(round)));
  }
  wait_until([&] { return syncer_->fragments().size() == 2; });
  for (int round = 3; round <= 4; ++round)
    communication_->stage(fragment_of(round), values_of(1, 0));
  EXPECT_FALSE(communication_->can_stage()) << "no slot is free, two wait";
  wait_for_polls(*syncer_);
  EXPECT_EQ(syncer_->fragments().size(), 2U);
  syncer_->give_slots(2);
  wait_until([&] { return syncer_->fragments().size() == 4; });
  const auto sent = syncer_->fragments();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sent[static_cast<std::size_t>(i)].header.round, i + 1);
  EXPECT_EQ(sent[1].data, bytes_of({2, 2, 2}));
}

TEST_F(CommunicationTest, KillsAndStopsAreInflictedSlownessIsForTheComputeThread) {
  link::DownHeader fault = header_of(DownKind::fault);
  fault.fault_rank = 3;
  syncer_->say(fault);
  fault.fault = static_cast<std::int32_t>(FaultKind::slow);
  fault.factor = 10;
  syncer_->say(fault);
  wait_for_polls(*syncer_);
  const Inbox inbox = communication_->take();
  ASSERT_EQ(inbox.faults.size(), 1U);
  EXPECT_EQ(inbox.faults[0].factor, 10);
  communication_->stop();
  ASSERT_EQ(inflicted_.size(), 1U);
  EXPECT_EQ(inflicted_[0].fault_rank, 3);
}

TEST_F(CommunicationTest, FaultsOfTransfersAndCheckpointsWaitForTheirMoment) {
  link::DownHeader fault = header_of(DownKind::fault);
  fault.fault = static_cast<std::int32_t>(FaultKind::corrupt);
  syncer_->say(fault);
  fault.fault = static_cast<std::int32_t>(FaultKind::kill);
  fault.moment = static_cast<std::int32_t>(Moment::transfer);
  syncer_->say(fault);
  fault.moment = static_cast<std::int32_t>(Moment::checkpoint);
  syncer_->say(fault);
  wait_for_polls(*syncer_);
  EXPECT_EQ(communication_->take().faults.size(), 1U);
  EXPECT_TRUE(syncer_->disturbances().empty());
  for (int i = 0; i < 2; ++i) communication_->stage({}, values_of(1, 1));
  wait_until([&] { return syncer_->fragments().size() == 2; });
  const auto disturbances = syncer_->disturbances();
  ASSERT_EQ(disturbances.size(), 2U);
  EXPECT_TRUE(disturbances[0].corrupt);
  EXPECT_TRUE(inflicted_.empty());
  disturbances[1].inside();
  EXPECT_EQ(inflicted_.size(), 1U);
}

TEST_F(CommunicationTest, WhileTheLinkIsCutNothingGetsThrough) {
  link::DownHeader fault = header_of(DownKind::fault);
  fault.fault = static_cast<std::int32_t>(FaultKind::drop);
  fault.seconds = 1000;
  syncer_->say(fault);
  wait_for_polls(*syncer_);
  syncer_->say(header_of(DownKind::pause));
  communication_->post({});
  communication_->stage({}, values_of(2, 1));
  wait_for_polls(*syncer_);
  EXPECT_FALSE(communication_->take().pause);
  EXPECT_TRUE(syncer_->reports().empty());
  wait_until([&] { return communication_->can_stage(); });
  EXPECT_TRUE(syncer_->fragments().empty());
}

TEST_F(CommunicationTest, TurnsToTheStandbyWhenTheSyncerDies) {
  link::Report report;
  report.step = 7;
  communication_->post(report);
  communication_->flush(60);
  syncer_->say(about(DownKind::ask, 0, 0, 1));
  wait_for_polls(*syncer_);
  syncer_->die();
  wait_until([&] { return !standby_->reports().empty(); });
  EXPECT_EQ(standby_->reports().front().step, 7);
  const Inbox inbox = communication_->take();
  EXPECT_FALSE(inbox.syncer_lost);
  EXPECT_TRUE(inbox.asks.empty()) << "its successor asks again";

  communication_->stage(fragment_of(1), values_of(1, 1));
  wait_until([&] { return !standby_->fragments().empty(); });
  EXPECT_TRUE(syncer_->fragments().empty());
}

TEST_F(CommunicationTest, WhatAnOlderTermSaysIsDropped) {
  standby_->say(header_of(DownKind::turn));
  wait_for_polls(*standby_);
  syncer_->say(assign(0, 9));
  wait_for_polls(*syncer_);
  EXPECT_FALSE(communication_->take().order);
  standby_->say(assign(1, 9));
  wait_for_polls(*standby_);
  EXPECT_EQ(communication_->take().order->learner, 1);
}

TEST_F(CommunicationTest, NoSyncerIsLeftWhenAllAreDead) {
  standby_->die();
  const int polls = standby_->polls();
  wait_until([&] { return standby_->polls() > polls; });
  EXPECT_FALSE(communication_->take().syncer_lost);
  syncer_->die();
  wait_until([&] { return communication_->take().syncer_lost; });
  EXPECT_TRUE(communication_->take().syncer_lost) << "for good";
  communication_->post({});
  communication_->flush(60);  // returns although nobody takes the report
}

// A leader with pairs to three syncers that share the fragments.
class SharedCommunicationTest : public testing::Test {
 protected:
  SharedCommunicationTest() {
    std::vector<std::unique_ptr<link::LeaderEnd>> ends;
    for (FakeLeaderEnd*& end : syncers_) {
      auto fake = std::make_unique<FakeLeaderEnd>();
      end = fake.get();
      ends.push_back(std::move(fake));
    }
    communication_ = std::make_unique<Communication>(
        std::move(ends), std::make_unique<FragmentEncoder>(Wire{}, 8, 1),
        std::make_unique<FragmentDecoder>(Wire{}, 8, 1), [](const link::DownHeader&) {}, 3);
  }

  void wait_for_polls() {
    int polls[3];
    for (int i = 0; i < 3; ++i) polls[i] = syncers_[i]->polls();
    for (int i = 0; i < 3; ++i) wait_until([&] { return syncers_[i]->polls() >= polls[i] + 2; });
  }

  void stage(int fragment) {
    link::FragmentHeader header;
    header.fragment = fragment;
    communication_->stage(header, values_of(1, static_cast<float>(fragment)));
  }

  FakeLeaderEnd* syncers_[3] = {};
  std::unique_ptr<Communication> communication_;
};

TEST_F(SharedCommunicationTest, EachFragmentGoesToTheOneThatMergesIt) {
  for (int fragment = 0; fragment < 6; ++fragment) {
    wait_until([&] { return communication_->can_stage(); });
    stage(fragment);
  }
  for (int syncer = 0; syncer < 3; ++syncer) {
    wait_until([&] { return syncers_[syncer]->fragments().size() == 2; });
    const auto sent = syncers_[syncer]->fragments();
    EXPECT_EQ(sent[0].header.fragment, syncer);
    EXPECT_EQ(sent[1].header.fragment, syncer + 3);
  }
}

TEST_F(SharedCommunicationTest, ABusySyncerHoldsUpNoOther) {
  syncers_[1]->give_slots(-2);
  stage(1);
  stage(2);
  wait_until([&] { return syncers_[2]->fragments().size() == 1; });
  EXPECT_TRUE(syncers_[1]->fragments().empty());
}

TEST_F(SharedCommunicationTest, ReportsGoToTheFirstAlone) {
  communication_->post({});
  communication_->flush(60);
  wait_for_polls();
  EXPECT_FALSE(syncers_[0]->reports().empty());
  EXPECT_TRUE(syncers_[1]->reports().empty());
  EXPECT_TRUE(syncers_[2]->reports().empty());
}

TEST_F(SharedCommunicationTest, AFragmentForTheLifeToComeOutlivesTheOrder) {
  link::DownHeader quick = about(DownKind::fragment, 1, 4);
  quick.learner = 2;
  quick.incarnation = 5;
  syncers_[1]->say(quick, {1});
  link::DownHeader late = about(DownKind::fragment, 2, 4);
  late.learner = 2;
  late.incarnation = 4;
  syncers_[2]->say(late, {2});
  wait_for_polls();
  syncers_[0]->say(assign(2, 5));
  wait_for_polls();
  const Inbox inbox = communication_->take();
  ASSERT_TRUE(inbox.order);
  ASSERT_EQ(inbox.fragments.size(), 1U);
  EXPECT_EQ(*inbox.fragments.at(1).data, bytes_of({1}));
}

TEST_F(SharedCommunicationTest, TheFirstSyncerSaysWhatTheLossOfAnotherMeans) {
  const int polls = syncers_[2]->polls();
  syncers_[2]->die();
  wait_until([&] { return syncers_[2]->polls() > polls; });
  EXPECT_FALSE(communication_->take().syncer_lost);
  syncers_[0]->say(header_of(DownKind::finish));
  wait_until([&] { return communication_->take().finish.has_value(); });
}

TEST_F(SharedCommunicationTest, WithoutTheFirstThereIsNone) {
  syncers_[0]->die();
  wait_until([&] { return communication_->take().syncer_lost; });
}

TEST_F(SharedCommunicationTest, AFaultOfATransferHitsTheNextFragmentWhereverItGoes) {
  link::DownHeader fault = header_of(DownKind::fault);
  fault.fault = static_cast<std::int32_t>(FaultKind::corrupt);
  syncers_[0]->say(fault);
  wait_for_polls();
  stage(2);
  wait_until([&] { return !syncers_[2]->fragments().empty(); });
  stage(0);
  wait_until([&] { return !syncers_[0]->fragments().empty(); });
  ASSERT_EQ(syncers_[2]->disturbances().size(), 1U);
  EXPECT_TRUE(syncers_[2]->disturbances()[0].corrupt);
  EXPECT_TRUE(syncers_[0]->disturbances().empty());
}

TEST_F(SharedCommunicationTest, ACutLinkIsCutToAll) {
  link::DownHeader fault = header_of(DownKind::fault);
  fault.fault = static_cast<std::int32_t>(FaultKind::drop);
  fault.seconds = 1000;
  syncers_[0]->say(fault);
  wait_for_polls();
  stage(2);
  syncers_[1]->say(about(DownKind::fragment, 1, 1), {1});
  wait_for_polls();
  EXPECT_TRUE(communication_->take().fragments.empty());
  wait_until([&] { return communication_->can_stage(); });
  EXPECT_TRUE(syncers_[2]->fragments().empty());
}

}  // namespace
}  // namespace archipelago::runtime
