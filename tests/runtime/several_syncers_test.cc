#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "runtime/cuts.h"
#include "runtime/fragment_sender.h"
#include "runtime/global_state.h"
#include "runtime/machine_settings.h"
#include "runtime/other_syncers.h"
#include "runtime/tape_follower.h"
#include "tests/runtime/fake_link.h"
#include "tests/runtime/tiny_setup.h"

namespace archipelago::runtime {
namespace {

constexpr int kFragments = 5;

Setup shared_setup(int syncers) {
  Setup setup = tiny_setup(kFragments, syncers);
  setup.data.groups.at(0).windows = 1000;
  return setup;
}

TEST(Share, EachFragmentHasOneSyncer) {
  for (int syncers = 1; syncers <= kFragments; ++syncers) {
    for (int fragment = 0; fragment < kFragments; ++fragment) {
      for (int syncer = 0; syncer < syncers; ++syncer) {
        EXPECT_EQ((Share{syncer, syncers}.holds(fragment)), fragment % syncers == syncer);
      }
    }
  }
}

TEST(Share, MailboxesAreOfItsOwnLargestFragment) {
  const runtime::Setup setup = shared_setup(2);
  std::int64_t largest[2] = {0, 0};
  for (int p = 0; p < kFragments; ++p) {
    largest[p % 2] = std::max(largest[p % 2], setup.fragments[static_cast<std::size_t>(p)].size);
  }
  for (int syncer = 0; syncer < 2; ++syncer) {
    EXPECT_EQ(largest_fragment(setup, {syncer, 2}), largest[syncer]);
    EXPECT_EQ(mailbox_layout(setup, {syncer, 2}).largest_fragment(),
              largest[syncer] * static_cast<std::int64_t>(sizeof(float)));
  }
  EXPECT_EQ(largest_fragment(setup, {}), setup.largest_fragment);
}

TEST(Share, ThereAreNotMoreSyncersThanFragments) {
  EXPECT_EQ(shared_setup(kFragments).fragment_count(), kFragments);
  try {
    shared_setup(kFragments + 1);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("5 fragments"), std::string::npos);
  }
}

// Merges a fragment twice from one learner that has moved by a hundredth.
void merge_twice(GlobalState& state, int fragment) {
  for (int round = 0; round < 2; ++round) {
    link::Values moved = *state.theta(fragment);
    for (float& value : moved) value -= 0.01F;
    state.adopt(state.merge(fragment, {{moved, 1.0}}));
  }
}

TEST(GlobalStateShare, PartsPutTogetherAreTheWholeOfOneSyncer) {
  const runtime::Setup setup = shared_setup(2);
  GlobalState one(setup);
  GlobalState first(setup, {0, 2});
  GlobalState second(setup, {1, 2});
  for (int p = 0; p < kFragments; ++p) {
    GlobalState& owner = p % 2 == 0 ? first : second;
    const GlobalState& other = p % 2 == 0 ? second : first;
    EXPECT_TRUE(owner.holds(p));
    EXPECT_FALSE(other.holds(p));
    EXPECT_EQ(other.theta(p), nullptr);
    EXPECT_EQ(other.momentum(p), nullptr);
    merge_twice(one, p);
    merge_twice(owner, p);
  }
  GlobalState whole = first;
  for (int p = 1; p < kFragments; p += 2) {
    whole.put({p, second.theta(p), second.momentum(p)}, second.version(p));
  }
  EXPECT_EQ(whole.digest(), one.digest());
  EXPECT_EQ(whole.versions(), one.versions());
  checkpoint::Global of_whole;
  checkpoint::Global of_one;
  whole.fill(of_whole);
  one.fill(of_one);
  EXPECT_EQ(of_whole.common.parameters, of_one.common.parameters);
  EXPECT_EQ(of_whole.momentum, of_one.momentum);

  // The file has them as they lie, without the copies.
  checkpoint::Global described;
  whole.describe(described);
  described.round = 10;
  const auto folder = std::filesystem::temp_directory_path() /
                      ("archipelago-several-syncers-" + std::to_string(::getpid()));
  checkpoint::save(folder, described, whole.arrays(), 1);
  const auto loaded = checkpoint::load_global(folder / checkpoint::global_name(10));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(loaded.common.parameters, of_one.common.parameters);
  EXPECT_EQ(loaded.momentum, of_one.momentum);
  EXPECT_EQ(loaded.common.versions, one.versions());

  // And of a checkpoint each takes its own again, whatever their number was.
  const GlobalState third(setup, of_whole, {2, 3});
  for (int p = 0; p < kFragments; ++p) {
    if (p % 3 != 2) {
      EXPECT_EQ(third.theta(p), nullptr);
      continue;
    }
    EXPECT_EQ(*third.theta(p), *one.theta(p));
    EXPECT_EQ(*third.momentum(p), *one.momentum(p));
    EXPECT_EQ(third.version(p), 2);
  }
}

// What the holder of a fragment sends for a cut.
link::ReplicaMessage part_of(const GlobalState& holder, int fragment, std::int64_t cut) {
  link::ReplicaMessage part;
  part.header.kind = link::ReplicaKind::part;
  part.header.fragment = fragment;
  part.header.version = holder.version(fragment);
  part.header.cut = cut;
  part.theta = *holder.theta(fragment);
  part.momentum = *holder.momentum(fragment);
  return part;
}

TEST(Cuts, PartsOfTwoOfOneRoundComeInAnyOrder) {
  const runtime::Setup setup = shared_setup(3);
  const GlobalState first(setup, {0, 3});
  GlobalState second(setup, {1, 3}), third(setup, {2, 3});
  Cuts cuts;
  const auto file = std::make_shared<checkpoint::Global>();
  const std::int64_t checkpoint = cuts.begin(10, first, kFragments);
  cuts.save_newest(10, file);
  // The second syncer is quick: its parts of both cuts come before the third's of the first.
  EXPECT_FALSE(cuts.take(part_of(second, 1, checkpoint)));
  EXPECT_FALSE(cuts.take(part_of(second, 4, checkpoint)));
  const std::uint64_t early = GlobalState(setup).digest();
  merge_twice(second, 1);
  const std::int64_t end = cuts.begin(10, first, kFragments);
  EXPECT_FALSE(cuts.take(part_of(second, 1, end)));
  EXPECT_FALSE(cuts.take(part_of(second, 4, end)));
  const auto saved = cuts.take(part_of(third, 2, checkpoint));
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->file, file);
  EXPECT_EQ(saved->state.digest(), early) << "it has parts of the other cut";
  EXPECT_TRUE(cuts.under_way());
  const auto last = cuts.take(part_of(third, 2, end));
  ASSERT_TRUE(last);
  EXPECT_EQ(last->file, nullptr);
  EXPECT_EQ(*last->state.theta(1), *second.theta(1));
  EXPECT_FALSE(cuts.under_way());
  EXPECT_FALSE(cuts.take(part_of(third, 2, end))) << "of a cut that is over";
}

TEST(FragmentSenderShare, AJoinerGetsWhatTheSyncerHoldsMarkedWithItsLife) {
  const runtime::Setup setup = shared_setup(2);
  GlobalState state(setup, {1, 2});
  FakeSyncerEnd link{1};
  FragmentSender sender{link, state, kFragments};
  sender.add_peer();
  sender.begin_life(0, 6, 3);
  sender.mark_all(0);
  for (int turn = 0; turn < kFragments; ++turn) {
    sender.pump(0);
    while (link.data_in_flight(0) > 0) link.let_one_leave(0);
  }
  std::multiset<int> fragments;
  for (const auto& sent : link.sent) {
    fragments.insert(sent.header.fragment);
    EXPECT_EQ(sent.header.learner, 6);
    EXPECT_EQ(sent.header.incarnation, 3);
  }
  EXPECT_EQ(fragments, (std::multiset<int>{1, 3}));
}

TEST(Tally, ComesBackAsItWasSent) {
  const Tally told = decode_tally(
      encode({.bytes_up = 1LL << 60, .bytes_down = 7, .refused = 3, .largest_gap = 0.1}));
  EXPECT_EQ(told.bytes_up, 1LL << 60);
  EXPECT_EQ(told.bytes_down, 7);
  EXPECT_EQ(told.refused, 3);
  EXPECT_EQ(told.largest_gap, 0.1);
  EXPECT_THROW(decode_tally("{}"), Error);
  EXPECT_THROW(decode_tally("no JSON"), Error);
}

class TapeFollowerTest : public testing::Test {
 protected:
  TapeFollowerTest() {
    chain_.seal(sync::encode_start({machine_settings(setup_), restored_from(std::nullopt)}));
  }

  std::string entry(const sync::Event& event) {
    std::vector<sync::Action> actions;
    machine_.handle(0, event, actions);
    return chain_.seal(sync::encode_entry(0, event, actions));
  }

  runtime::Setup setup_ = shared_setup(2);
  sync::Machine machine_{machine_settings(setup_)};
  sync::TapeChain chain_;
  TapeFollower follower_{setup_, std::nullopt};
};

TEST_F(TapeFollowerTest, DecidesTheSame) {
  const auto told = follower_.follow(entry(sync::IslandReady{0}));
  EXPECT_EQ(told.event, sync::Event(sync::IslandReady{0}));
  EXPECT_TRUE(std::ranges::any_of(told.actions, [](const sync::Action& action) {
    return std::holds_alternative<sync::Assign>(action);
  }));
  EXPECT_EQ(follower_.machine().learners()[0].island, 0);
}

TEST_F(TapeFollowerTest, RefusesOtherDecisionsAndMissingEntries) {
  const std::string first = entry(sync::IslandReady{0});
  const std::string second = entry(sync::IslandReady{1});
  EXPECT_THROW(TapeFollower(setup_, std::nullopt).follow(second), Error) << "one is missing";
  EXPECT_THROW(follower_.follow(sync::encode_entry(0, sync::IslandReady{0}, {})), Error);
}

}  // namespace
}  // namespace archipelago::runtime
