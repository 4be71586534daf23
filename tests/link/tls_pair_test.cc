#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "connected.h"
#include "link/tls_frames.h"
#include "link/tls_leader_end.h"
#include "link/tls_syncer_end.h"

namespace archipelago::link {
namespace {

constexpr std::int64_t kLargest = 16 << 20;

// A syncer's end with one leader.
class TlsPairTest : public testing::Test {
 protected:
  void SetUp() override {
    Pair pair = connected();
    syncer_.add(std::move(pair.syncer));
    leader_.emplace(std::move(pair.leader), layout_);
  }

  ArrivedFragment next_fragment() {
    std::optional<ArrivedFragment> fragment;
    EXPECT_TRUE(comes([&] { return (fragment = syncer_.read_fragment(0)).has_value(); }));
    return *fragment;
  }
  std::vector<DownMessage> receive(std::size_t count) {
    std::vector<DownMessage> messages;
    EXPECT_TRUE(comes(
        [&] { return leader_->poll(messages) == PeerState::lost || messages.size() >= count; }));
    return messages;
  }
  bool becomes_lost() {
    std::vector<int> lost;
    const bool came = comes([&] { return syncer_.poll(lost), !lost.empty(); });
    return came && lost == std::vector<int>{0};
  }

  MailboxLayout layout_{3, kLargest};
  TlsSyncerEnd syncer_{layout_};
  std::optional<TlsLeaderEnd> leader_;
};

TEST_F(TlsPairTest, TheNewestReportCounts) {
  Report report;
  report.held = {1, 2, 3};
  for (report.step = 1; report.step <= 100; ++report.step) {
    ASSERT_EQ(leader_->put_report(report), PeerState::alive);
  }
  std::int64_t last = 0;
  ASSERT_TRUE(comes([&] {
    const auto read = syncer_.read_report(0);
    if (read) {
      EXPECT_GT(read->step, last);
      EXPECT_EQ(read->held, report.held);
      last = read->step;
    }
    return last == 100;
  }));
  EXPECT_FALSE(syncer_.read_report(0));
}

TEST_F(TlsPairTest, FragmentsComeWholeAndInOrder) {
  for (int round = 0; round < 20; ++round) {
    const Bytes data = random_bytes(round % 4 == 0 ? kLargest : 100 + round, round);
    ASSERT_TRUE(comes([&] {
      std::vector<DownMessage> messages;
      EXPECT_EQ(leader_->poll(messages), PeerState::alive);
      return leader_->slot_free();
    }));
    FragmentHeader header;
    header.round = round;
    ASSERT_EQ(leader_->put_fragment(header, data), PeerState::alive);
    const auto fragment = next_fragment();
    EXPECT_EQ(fragment.header.round, round);
    EXPECT_TRUE(std::ranges::equal(fragment.data, data));
    syncer_.acknowledge(0, fragment.slot);
  }
}

TEST_F(TlsPairTest, TwoSlotsUntilAcknowledged) {
  const Bytes data = random_bytes(10, 1);
  ASSERT_EQ(leader_->put_fragment({.round = 1}, data), PeerState::alive);
  ASSERT_EQ(leader_->put_fragment({.round = 2}, data), PeerState::alive);
  EXPECT_FALSE(leader_->slot_free());
  const auto first = next_fragment();
  EXPECT_EQ(first.header.round, 1);
  EXPECT_EQ(next_fragment().header.round, 2);
  syncer_.acknowledge(0, first.slot);
  std::vector<DownMessage> messages;
  EXPECT_TRUE(comes([&] {
    static_cast<void>(leader_->poll(messages));
    return leader_->slot_free();
  }));
  EXPECT_TRUE(messages.empty());
}

TEST_F(TlsPairTest, MessagesComeDownInOrder) {
  const auto large = std::make_shared<const Bytes>(random_bytes(kLargest, 7));
  for (int i = 0; i < 50; ++i) {
    DownHeader header;
    header.kind = i % 10 == 0 ? DownKind::fragment : DownKind::ask;
    header.round = i;
    syncer_.send(0, header, i % 10 == 0 ? Payload(large) : Payload());
  }
  const auto messages = receive(50);
  ASSERT_EQ(messages.size(), 50U);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(messages[i].header.round, i);
    EXPECT_EQ(messages[i].data, i % 10 == 0 ? *large : Bytes());
  }
  EXPECT_TRUE(comes([&] { return syncer_.drained(); }));
  EXPECT_EQ(syncer_.data_in_flight(0), 0);
}

TEST_F(TlsPairTest, AReaderThatDoesNotReadHoldsUpNobody) {
  const auto large = std::make_shared<const Bytes>(random_bytes(kLargest, 7));
  DownHeader header;
  header.kind = DownKind::fragment;
  for (int i = 0; i < 4; ++i) syncer_.send(0, header, Payload(large));
  EXPECT_GT(syncer_.data_in_flight(0), 0);
  EXPECT_FALSE(syncer_.drained());
  // Meanwhile what comes up is heard.
  ASSERT_EQ(leader_->put_report(report_at(5)), PeerState::alive);
  EXPECT_TRUE(comes([&] { return syncer_.read_report(0).has_value(); }));
  EXPECT_EQ(receive(4).size(), 4U);
}

TEST_F(TlsPairTest, ADisturbanceIsSeen) {
  const Bytes data = random_bytes(1000, 3);
  bool inside = false;
  leader_->disturb_next({.corrupt = true, .inside = [&] {
                           inside = true;
                           EXPECT_FALSE(syncer_.read_fragment(0));
                         }});
  ASSERT_EQ(leader_->put_fragment({}, data), PeerState::alive);
  const auto fragment = next_fragment();
  EXPECT_TRUE(inside);
  EXPECT_NE(fragment.data[0], data[0]);
  EXPECT_TRUE(std::equal(data.begin() + 1, data.end(), fragment.data.begin() + 1));
}

TEST_F(TlsPairTest, ALeaderThatGoesIsLostOnce) {
  leader_.reset();
  EXPECT_TRUE(becomes_lost());
  std::vector<int> lost;
  syncer_.poll(lost);
  EXPECT_TRUE(lost.empty());
  syncer_.send(0, {});
  syncer_.acknowledge(0, 0);
  EXPECT_FALSE(syncer_.read_report(0));
  EXPECT_FALSE(syncer_.read_fragment(0));
  EXPECT_TRUE(syncer_.drained());
}

TEST_F(TlsPairTest, LastWordsAreReadBeforeALeaderIsLost) {
  ASSERT_EQ(leader_->put_report(report_at(7)), PeerState::alive);
  leader_.reset();
  syncer_.wait_for_leaders(kLong);
  std::vector<int> lost;
  syncer_.poll(lost);
  EXPECT_TRUE(lost.empty());
  const auto report = syncer_.read_report(0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->step, 7);
  syncer_.poll(lost);
  EXPECT_EQ(lost, std::vector<int>{0});
}

TEST_F(TlsPairTest, LeadersAreWaitedFor) {
  const auto started = std::chrono::steady_clock::now();
  syncer_.wait_for_leaders(0.01);
  EXPECT_GE(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(10));
  auto gone = std::async(std::launch::async, [&] {
    syncer_.wait_for_leaders(kLong);
    return true;
  });
  EXPECT_EQ(gone.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  leader_.reset();
  EXPECT_EQ(gone.wait_for(std::chrono::duration<double>(kLong / 2)), std::future_status::ready);
}

TEST(TlsSyncerEndTest, ASyncerThatGoesIsLost) {
  const MailboxLayout layout(1, 1000);
  Pair pair = connected();
  auto syncer = std::make_unique<TlsSyncerEnd>(layout);
  syncer->add(std::move(pair.syncer));
  TlsLeaderEnd leader(std::move(pair.leader), layout);
  syncer.reset();
  std::vector<DownMessage> messages;
  EXPECT_TRUE(comes([&] { return leader.poll(messages) == PeerState::lost; }));
  EXPECT_EQ(leader.put_report({}), PeerState::lost);
  EXPECT_EQ(leader.put_fragment({}, {}), PeerState::lost);
}

// A leader that still has something to say when the syncer leaves.
TEST(TlsSyncerEndTest, LastWordsAreHeard) {
  const MailboxLayout layout(1, kLargest);
  Pair pair = connected();
  auto syncer = std::make_unique<TlsSyncerEnd>(layout);
  syncer->add(std::move(pair.syncer));
  TlsLeaderEnd leader(std::move(pair.leader), layout);
  syncer->send(0, {.kind = DownKind::leave, .round = 12});
  ASSERT_TRUE(comes([&] { return syncer->drained(); }));
  syncer.reset();
  for (int i = 0; i < 100; ++i) static_cast<void>(leader.put_report(report_at(i)));
  static_cast<void>(leader.put_fragment({}, random_bytes(kLargest, 1)));
  std::vector<DownMessage> messages;
  EXPECT_TRUE(comes([&] { return leader.poll(messages) == PeerState::lost; }));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].header.round, 12);
}

// What comes down meanwhile, which it does not read, must not undo them.
TEST(TlsLeaderEndTest, LastWordsOutliveWhatWasNotRead) {
  Pair pair = connected();
  TlsStream syncer = pair.syncer.take_stream();
  const Bytes unread(1000);
  std::size_t done = 0;
  ASSERT_EQ(syncer.write(unread, done), TlsStream::State::ready);
  const MailboxLayout layout(3, kLargest);
  auto leader = std::async(std::launch::async, [&, connection = std::move(pair.leader)]() mutable {
    TlsLeaderEnd end(std::move(connection), layout);
    return end.put_report(report_at(7));
  });
  // Until it has said its last: then its socket is closed, or half closed.
  pollfd waiting{syncer.socket(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&waiting, 1, -1), 1);
  Bytes heard(sizeof(TlsPut) + layout.report_bytes());
  std::size_t count = 0;
  ASSERT_TRUE(comes([&] {
    const auto state = syncer.read(std::span(heard).subspan(count), done);
    count += done;
    return state == TlsStream::State::ended || count == heard.size();
  }));
  EXPECT_EQ(count, heard.size()) << syncer.problem();
  ::shutdown(syncer.socket(), SHUT_RDWR);
  EXPECT_EQ(leader.get(), PeerState::alive);
}

// A syncer that goes while a fragment is on its way to it.
TEST(TlsSyncerEndTest, APutThatWaitsForRoomEndsWithTheSyncer) {
  const MailboxLayout layout(1, kLargest);
  Pair pair = connected();
  TlsLeaderEnd leader(std::move(pair.leader), layout);
  const Bytes data = random_bytes(kLargest, 1);
  auto put = std::async(std::launch::async, [&] { return leader.put_fragment({}, data); });
  std::byte first{};
  {
    TlsStream syncer = pair.syncer.take_stream();
    std::size_t done = 0;
    EXPECT_TRUE(
        comes([&] { return syncer.read(std::span(&first, 1), done) == TlsStream::State::ready; }));
  }
  ASSERT_EQ(put.wait_for(std::chrono::duration<double>(kLong)), std::future_status::ready);
  std::vector<DownMessage> messages;
  EXPECT_TRUE(comes([&] { return leader.poll(messages) == PeerState::lost; }));
}

TEST(TlsSyncerEndTest, WhoBreaksTheRulesHearsOfItsEnd) {
  const MailboxLayout layout(1, 1000);
  Pair pair = connected();
  TlsSyncerEnd syncer(layout);
  syncer.add(std::move(pair.syncer));
  TlsStream rogue = pair.leader.take_stream();
  const TlsPut beside{layout.bytes(), 1};
  std::size_t done = 0;
  ASSERT_EQ(rogue.write(std::as_bytes(std::span(&beside, 1)), done), TlsStream::State::ready);
  std::vector<int> lost;
  EXPECT_TRUE(comes([&] { return syncer.poll(lost), !lost.empty(); }));
  std::byte answer{};
  EXPECT_TRUE(
      comes([&] { return rogue.read(std::span(&answer, 1), done) == TlsStream::State::ended; }));
}

// A leader in the middle of a fragment: what has come of it is never seen.
TEST(TlsSyncerEndTest, HalfAFragmentIsNone) {
  const MailboxLayout layout(1, 1000);
  Pair pair = connected();
  TlsSyncerEnd syncer(layout);
  syncer.add(std::move(pair.syncer));
  TlsStream stream = pair.leader.take_stream();
  const TlsPut put{layout.data_offset(0), 900};
  std::size_t done = 0;
  ASSERT_EQ(stream.write(std::as_bytes(std::span(&put, 1)), done), TlsStream::State::ready);
  ASSERT_EQ(stream.write(random_bytes(400, 1), done), TlsStream::State::ready);
  stream =
      TlsStream(FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0)), TlsStream::Side::client, {});
  std::vector<int> lost;
  EXPECT_TRUE(comes([&] { return syncer.poll(lost), !lost.empty(); }));
  EXPECT_FALSE(syncer.read_fragment(0));
}

// Whoever knows the secret may still say anything.
TEST(TlsSyncerEndTest, NonsenseEndsTheConnectionAtWorst) {
  const MailboxLayout layout(2, 4096);
  for (unsigned seed = 0; seed < 50; ++seed) {
    Pair pair = connected();
    TlsSyncerEnd syncer(layout);
    syncer.add(std::move(pair.syncer));
    TlsStream stream = pair.leader.take_stream();
    std::mt19937 source(seed);
    for (int i = 0; i < 50; ++i) {
      const bool fits = source() % 8 != 0;
      const std::uint64_t offset = source() % layout.bytes();
      const TlsPut put{fits ? offset : offset << (source() % 40),
                       fits ? source() % (layout.bytes() - offset + 1) : source()};
      const auto rubbish = random_bytes(fits ? put.bytes : 64, seed);
      std::size_t done = 0;
      if (stream.write(std::as_bytes(std::span(&put, 1)), done) != TlsStream::State::ready) break;
      if (!rubbish.empty() && stream.write(rubbish, done) != TlsStream::State::ready) break;
      static_cast<void>(syncer.read_report(0));
      if (const auto fragment = syncer.read_fragment(0)) {
        EXPECT_LE(fragment->data.size(), 4096U);
        syncer.acknowledge(0, fragment->slot);
      }
    }
  }
}

TEST(TlsFrames, PutsLieWithinTheMailbox) {
  const MailboxLayout layout(1, 1000);
  const std::uint64_t all = layout.bytes();
  const std::uint64_t most = ~std::uint64_t{0};
  EXPECT_TRUE(is_within({0, all}, layout));
  EXPECT_TRUE(is_within({all, 0}, layout));
  EXPECT_FALSE(is_within({1, all}, layout));
  EXPECT_FALSE(is_within({all + 1, 0}, layout));
  EXPECT_FALSE(is_within({most, 1}, layout));
  EXPECT_FALSE(is_within({1, most}, layout));
}

TEST(TlsFrames, MessagesDownAreChecked) {
  const MailboxLayout layout(1, 1000);
  EXPECT_TRUE(is_sound({.kind = DownKind::fragment, .bytes = 8000}, layout));
  EXPECT_FALSE(is_sound({.kind = static_cast<DownKind>(99)}, layout));
  EXPECT_FALSE(is_sound({.kind = DownKind::ask, .bytes = -1}, layout));
  EXPECT_FALSE(is_sound({.kind = DownKind::ask, .bytes = std::int64_t{1} << 40}, layout));
  EXPECT_FALSE(is_sound({.kind = DownKind::acknowledge, .slot = 2}, layout));
  EXPECT_FALSE(is_sound({.kind = DownKind::acknowledge, .slot = -1}, layout));
}

}  // namespace
}  // namespace archipelago::link
