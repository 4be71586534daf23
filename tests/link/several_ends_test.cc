#include "link/several_ends.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "connected.h"
#include "link/tls_leader_end.h"
#include "link/tls_syncer_end.h"

namespace archipelago::link {
namespace {

// Peers of two ends as those of one.
TEST(SeveralEndsTest, EachPeerHasItsOwnEnd) {
  const MailboxLayout layout(1, 1000);
  TlsSyncerEnd first(layout);
  TlsSyncerEnd second(layout);
  std::vector<std::unique_ptr<TlsLeaderEnd>> leaders;
  const auto add = [&](TlsSyncerEnd& end) {
    Pair pair = connected();
    leaders.push_back(std::make_unique<TlsLeaderEnd>(std::move(pair.leader), layout));
    return end.add(std::move(pair.syncer));
  };
  add(first);
  add(first);
  SeveralEnds all({&first, &second});
  EXPECT_EQ(all.peers(), 2);
  EXPECT_EQ(all.add(second, add(second)), 2);
  EXPECT_EQ(all.add_absent(), 3);
  EXPECT_EQ(all.add(first, add(first)), 4);

  const int peer_of_leader[] = {0, 1, 2, 4};
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    ASSERT_EQ(leaders[i]->put_report(report_at(static_cast<std::int64_t>(i))), PeerState::alive);
    std::optional<Report> report;
    ASSERT_TRUE(comes([&] { return (report = all.read_report(peer_of_leader[i])).has_value(); }));
    EXPECT_EQ(report->step, static_cast<std::int64_t>(i));
    DownHeader header;
    header.round = static_cast<std::int64_t>(i);
    all.send(peer_of_leader[i], header);
    std::vector<DownMessage> messages;
    ASSERT_TRUE(comes([&] {
      static_cast<void>(leaders[i]->poll(messages));
      return !messages.empty();
    }));
    EXPECT_EQ(messages[0].header.round, static_cast<std::int64_t>(i));
  }
  all.send(3, {});
  all.acknowledge(3, 0);
  EXPECT_FALSE(all.read_report(3));
  EXPECT_FALSE(all.read_fragment(3));
  EXPECT_EQ(all.data_in_flight(3), 0);
  EXPECT_TRUE(comes([&] { return all.drained(); }));
  EXPECT_EQ(all.bytes_up(), first.bytes_up() + second.bytes_up());

  leaders.erase(leaders.begin() + 2);
  std::vector<int> lost;
  EXPECT_TRUE(comes([&] { return all.poll(lost), !lost.empty(); }));
  EXPECT_EQ(lost, std::vector<int>{2});
}

}  // namespace
}  // namespace archipelago::link
