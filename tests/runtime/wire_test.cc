// Fragments on their way from a learner to the syncer and back, encoded: what each side makes of
// the other's bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "runtime/arrivals.h"
#include "runtime/fragment_encoder.h"
#include "tests/runtime/fake_link.h"

namespace archipelago::runtime {
namespace {

runtime::Setup setup_of(const std::string& up, const std::string& down, int width = 8) {
  config::RunConfig config;
  config.model.layers = 1;
  config.model.width = width;
  config.model.heads = 2;
  config.model.context = 4;
  config.model.vocabulary = 16;
  config.sync.fragments = 4;
  config.sync.learners = 2;
  config.wire = {up, down};
  return make_setup(config);
}

// A learner and the syncer, with nothing between them.
class Pair {
 public:
  Pair(const std::string& up, const std::string& down, int width = 8)
      : setup(setup_of(up, down, width)) {
    for (int p = 0; p < setup.fragment_count(); ++p) receive(p);
  }

  // The learner takes the newest version.
  void receive(int p) {
    const auto data = state.payload(p).bytes();
    bases[at(p)] = {data.begin(), data.end()};
    link::Values scratch;
    const auto values = fragment::Codec(1).read(setup.wire.whole(), bases[at(p)],
                                                setup.fragments[at(p)].size, scratch);
    learner[at(p)].assign(values->begin(), values->end());
    versions[at(p)] = state.version(p);
  }

  // The learner trains: every element moves by `amount`.
  void train(int p, float amount) {
    for (float& value : learner[at(p)]) value += amount;
  }

  // What goes up.
  link::ArrivedFragment send(int p, std::int64_t round) {
    header = {};
    header.learner = 0;
    header.incarnation = 0;
    header.round = round;
    header.fragment = p;
    header.base_version = versions[at(p)];
    header.elements = setup.fragments[at(p)].size;
    const auto data = encoder.encode(header, learner[at(p)], {}, &bases[at(p)], buffer);
    header.bytes = static_cast<std::int64_t>(data.size());
    return {header, data, 1};
  }

  // The syncer reads it through; what it then knows of its norm, nothing when it is refused.
  std::optional<double> arrive(const link::ArrivedFragment& fragment) {
    arrivals.take(0, fragment);
    const auto taken = arrivals.read(kAll);
    EXPECT_LE(taken.size(), 1U);
    EXPECT_FALSE(arrivals.reading());
    if (taken.empty()) return std::nullopt;
    EXPECT_EQ(taken[0].header.round, fragment.header.round);
    return taken[0].norm;
  }

  // The syncer merges `values` as the only contribution, with the outer step Theta := values.
  void publish(int p, std::span<const float> values) {
    auto theta = std::make_shared<const link::Values>(values.begin(), values.end());
    state.adopt({p, theta, theta, {}});
  }

  static constexpr std::int64_t kAll = std::int64_t{1} << 40;  // elements
  static std::size_t at(int p) { return static_cast<std::size_t>(p); }

  runtime::Setup setup;
  GlobalState state{setup};
  link::FragmentHeader header;
  FakeSyncerEnd link{2};
  Arrivals arrivals{setup, link, state};
  FragmentEncoder encoder{setup.wire, setup.fragment_count(), 1};
  std::vector<link::Values> learner{setup.fragments.size()};
  std::vector<link::Bytes> bases{setup.fragments.size()};
  std::vector<std::int32_t> versions = std::vector<std::int32_t>(setup.fragments.size(), -1);
  link::Bytes buffer;
};

constexpr const char* kUps[] = {"f32", "bf16", "int8", "e3m0"};

TEST(WireTest, F32GoesAsItIsAndKeepsItsSlot) {
  Pair pair("f32", "f32");
  pair.train(1, 0.5F);
  const auto fragment = pair.send(1, 7);
  const auto norm = pair.arrive(fragment);
  ASSERT_TRUE(norm);
  EXPECT_NEAR(*norm, 0.5 * std::sqrt(pair.setup.fragments[1].size), 1e-5);
  const auto values = pair.arrivals.values({0, 0, 7});
  EXPECT_EQ(static_cast<const void*>(values.data()), fragment.data.data());
  EXPECT_TRUE(pair.link.acknowledged.empty());
  pair.arrivals.release({0, 0, 7});
  EXPECT_EQ(pair.link.acknowledged, (std::vector<std::pair<int, int>>{{0, 1}}));
}

// The rounding of what came down is not sent back up as if the learner had done it.
TEST(WireTest, TheSyncerSeesWhatTheLearnerDidFromItsOwnTheta) {
  for (const std::string up : kUps) {
    Pair pair(up, "bf16");
    pair.train(1, 0.25F);
    ASSERT_TRUE(pair.arrive(pair.send(1, 7))) << up;
    EXPECT_EQ(pair.link.acknowledged.size(), 1U) << "decoded: the slot is free at once";
    const auto values = pair.arrivals.values({0, 0, 7});
    const auto& theta = *pair.state.theta(1);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      ASSERT_NEAR(values[i], theta[i] + 0.25, up == "f32" ? 1e-6 : 2e-3) << up;
    }
    pair.arrivals.release({0, 0, 7});
    EXPECT_EQ(pair.link.acknowledged.size(), 1U);
  }
}

TEST(WireTest, EveryoneReceivesTheSameBytesOfAVersion) {
  Pair pair("e3m0", "bf16");
  const runtime::Setup other_setup = setup_of("e3m0", "bf16");
  GlobalState other(other_setup);  // a standby's, or of a syncer started again
  auto theta = *pair.state.theta(2);
  for (float& value : theta) value *= 1.01F;
  const auto sync_merged =
      pair.state.merge(2, {{std::span<const float>(theta), 1.0}});  // encoded by the merge
  pair.state.adopt(sync_merged);
  other.adopt({2, sync_merged.theta, sync_merged.momentum, {}});
  for (const int p : {0, 2}) {
    const auto one = pair.state.payload(p).bytes();
    const auto two = other.payload(p).bytes();
    EXPECT_TRUE(std::ranges::equal(one, two));
  }
}

TEST(WireTest, ALearnerWithAnOlderBaseIsMergedTheSameWay) {
  Pair pair("e3m0", "bf16");
  pair.train(1, 0.5F);  // from version 0
  const auto first = *pair.state.theta(1);
  auto moved = first;
  for (float& value : moved) value += 3;
  pair.publish(1, moved);
  const auto norm = pair.arrive(pair.send(1, 9));
  ASSERT_TRUE(norm);
  const auto values = pair.arrivals.values({0, 0, 9});
  for (std::size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(values[i], first[i] + 0.5, 1e-6);
  EXPECT_NEAR(*norm, 2.5 * std::sqrt(first.size()), 1e-3) << "from the present Theta";
}

TEST(WireTest, EarlierVersionsAreKeptForThoseWhoHoldThem) {
  Pair pair("bf16", "f32");
  std::vector<sync::LearnerView> learners(2);
  for (auto& learner : learners) {
    learner.state = sync::LearnerState::active;
    learner.held = {0, 0, 0, 0};
  }
  pair.publish(1, pair.learner[1]);
  pair.publish(1, pair.learner[1]);
  pair.state.drop_unheld(learners);
  EXPECT_TRUE(pair.state.theta(1, 0) && pair.state.theta(1, 1) && pair.state.theta(1, 2));
  EXPECT_FALSE(pair.state.theta(1, 3) || pair.state.theta(1, -1));
  learners[0].held[1] = 2;
  learners[1].held[1] = 1;
  pair.state.drop_unheld(learners);
  EXPECT_TRUE(!pair.state.theta(1, 0) && pair.state.theta(1, 1) && pair.state.theta(1, 2));
  learners[1].state = sync::LearnerState::lost;
  pair.state.drop_unheld(learners);
  EXPECT_TRUE(!pair.state.theta(1, 1) && pair.state.theta(1, 2));
  // One that joins may come with any that was sent to it.
  learners[1].state = sync::LearnerState::joining;
  learners[1].held.clear();
  for (int merge = 0; merge < 10; ++merge) {
    pair.publish(1, pair.learner[1]);
    pair.state.drop_unheld(learners);
  }
  EXPECT_TRUE(pair.state.theta(1, 12) && pair.state.theta(1, 8));
  EXPECT_FALSE(pair.state.theta(1, 7)) << "not for ever";
}

TEST(WireTest, WhatDoesNotFitIsRefusedAndItsSlotGivenBack) {
  for (const std::string up : kUps) {
    Pair pair(up, "f32");
    const auto good = pair.send(1, 7);
    std::vector<link::ArrivedFragment> bad(5, good);
    bad[0].header.fragment = 4;
    bad[1].header.fragment = -1;
    bad[2].header.encoding = (good.header.encoding + 1) % 4;
    bad[3].data = good.data.first(good.data.size() - 1);
    const auto other = std::ranges::find_if(pair.setup.fragments, [&](const auto& fragment) {
      return fragment.size != good.header.elements;
    });
    ASSERT_NE(other, pair.setup.fragments.end());
    bad[4].header.fragment = static_cast<int>(other - pair.setup.fragments.begin());
    const std::size_t expected = bad.size();
    for (const auto& fragment : bad) EXPECT_FALSE(pair.arrive(fragment)) << up;
    EXPECT_EQ(pair.arrivals.refused(), static_cast<std::int64_t>(expected));
    EXPECT_EQ(pair.link.acknowledged.size(), expected);
    EXPECT_TRUE(pair.arrive(good));
    const std::size_t acknowledged = pair.link.acknowledged.size();
    EXPECT_FALSE(pair.arrive(good)) << "a second time";
    EXPECT_EQ(pair.arrivals.refused(), static_cast<std::int64_t>(expected));
    EXPECT_EQ(pair.link.acknowledged.size(), acknowledged + 1);
  }
}

// Late it is dropped; else its learner is told to take the global state.
TEST(WireTest, WhatIsFromAVersionThatIsNotKeptIsNoNumber) {
  Pair pair("bf16", "f32");
  for (const std::int32_t version : {1, -1}) {  // one that does not exist yet, none
    auto fragment = pair.send(1, 7 + version);
    fragment.header.base_version = version;
    const auto norm = pair.arrive(fragment);
    ASSERT_TRUE(norm);
    EXPECT_FALSE(std::isfinite(*norm));
    pair.arrivals.release({0, 0, 7 + version});
  }
  EXPECT_EQ(pair.link.acknowledged.size(), 2U);
  EXPECT_EQ(pair.arrivals.refused(), 0);
}

TEST(WireTest, WhatIsNotFiniteArrivesAsThat) {
  for (const std::string up : kUps) {
    Pair pair(up, "bf16");
    pair.learner[2][3] = NAN;
    const auto norm = pair.arrive(pair.send(2, 1));
    ASSERT_TRUE(norm) << up;
    EXPECT_FALSE(std::isfinite(*norm)) << up;
  }
}

TEST(WireTest, WhatIsDamagedIsRefusedAndMayComeAgain) {
  for (const std::string up : kUps) {
    Pair pair(up, "bf16");
    pair.train(1, 0.5F);
    const auto good = pair.send(1, 7);
    link::Bytes bytes(good.data.begin(), good.data.end());
    std::int64_t refused = 0;
    for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 50) {
      bytes[at] ^= std::byte{0x10};
      EXPECT_FALSE(pair.arrive({good.header, bytes, 0})) << up << ", byte " << at;
      bytes[at] ^= std::byte{0x10};
      ++refused;
    }
    EXPECT_EQ(pair.arrivals.refused(), refused);
    EXPECT_EQ(pair.link.acknowledged,
              (std::vector<std::pair<int, int>>(static_cast<std::size_t>(refused), {0, 0})));
    EXPECT_TRUE(pair.arrive(good));
    EXPECT_EQ(pair.arrivals.refused(), refused);
  }
}

// A fragment of several parts counts when the last one was read, and not before.
TEST(WireTest, LargeFragmentsAreReadInSlices) {
  for (const std::string up : kUps) {
    Pair pair(up, "bf16", 256);
    const int p = 1;
    const auto size = pair.setup.fragments[Pair::at(p)].size;
    const auto parts = (size + kernels::kWirePart - 1) / kernels::kWirePart;
    ASSERT_GT(parts, 3);
    pair.train(p, 0.5F);
    pair.arrivals.take(0, pair.send(p, 7));
    for (std::int64_t part = 1; part < parts; ++part) {
      EXPECT_TRUE(pair.arrivals.read(1).empty());
      EXPECT_TRUE(pair.arrivals.reading());
      EXPECT_TRUE(pair.link.acknowledged.empty());
    }
    const auto taken = pair.arrivals.read(1);
    ASSERT_EQ(taken.size(), 1U);
    EXPECT_FALSE(pair.arrivals.reading());
    EXPECT_NEAR(taken[0].norm, 0.5 * std::sqrt(size), 2e-2 * std::sqrt(size));
    EXPECT_EQ(std::ssize(pair.arrivals.values({0, 0, 7})), size);
  }
}

TEST(WireTest, TheSameIsDroppedWhileTheFirstIsRead) {
  Pair pair("f32", "f32");
  const auto fragment = pair.send(1, 7);
  pair.arrivals.take(0, fragment);
  pair.arrivals.take(1, fragment);
  EXPECT_EQ(pair.arrivals.refused(), 0);
  EXPECT_EQ(pair.link.acknowledged, (std::vector<std::pair<int, int>>{{1, 1}}));
  EXPECT_EQ(pair.arrivals.read(Pair::kAll).size(), 1U);
}

// The norms that a merge uses are those from the Theta that it starts from.
TEST(WireTest, NormsOfAnEarlierThetaAreNotMergedWith) {
  Pair pair("f32", "f32");
  pair.train(1, 0.5F);
  ASSERT_TRUE(pair.arrive(pair.send(1, 7)));
  const auto input = pair.arrivals.input({0, 0, 7}, 2);
  EXPECT_EQ(input.weight, 2);
  ASSERT_EQ(input.squares.size(), pair.setup.pieces[1].size());
  for (std::size_t i = 0; i < input.squares.size(); ++i) {
    const auto size = static_cast<double>(pair.setup.pieces[1][i].size);
    EXPECT_NEAR(input.squares[i], 0.25 * size, 1e-4 * size);
  }
  pair.publish(1, pair.learner[1]);
  EXPECT_TRUE(pair.arrivals.input({0, 0, 7}, 2).squares.empty());
}

// Over many rounds the syncer hears of all that the learner did, but for a last message's loss.
TEST(WireTest, NothingOfManyRoundsIsLost) {
  for (const auto& [up, down] : std::vector<std::pair<std::string, std::string>>{
           {"int8", "bf16"}, {"e3m0", "bf16"}, {"int8", "int8"}, {"e3m0", "e3m0"}}) {
    Pair pair(up, down);
    Random random(3);
    const std::size_t size = pair.learner[1].size();
    std::vector<double> done(size, 0);
    std::vector<double> heard(size, 0);
    double largest = 0;
    for (int round = 1; round <= 60; ++round) {
      for (std::size_t i = 0; i < size; ++i) {
        const float before = pair.learner[1][i];
        pair.learner[1][i] += static_cast<float>(1e-3 * std::exp(2 * random.normal()));
        const double step = double{pair.learner[1][i]} - double{before};
        done[i] += step;
        largest = std::max(largest, step);
      }
      ASSERT_TRUE(pair.arrive(pair.send(1, round)));
      const auto values = pair.arrivals.values({0, 0, round});
      const auto& theta = *pair.state.theta(1);
      for (std::size_t i = 0; i < size; ++i) heard[i] += double{values[i]} - double{theta[i]};
      const link::Values next(values.begin(), values.end());
      pair.arrivals.release({0, 0, round});
      pair.publish(1, next);
      pair.receive(1);
    }
    for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(heard[i], done[i], largest) << up << down;
  }
}

TEST(WireTest, ANewLifeBeginsWithoutTheOldOnesResidual) {
  Pair pair("e3m0", "f32");
  const auto elements = pair.learner[1].size();
  pair.learner[1][0] += 1;
  for (std::size_t i = 1; i < elements; ++i) pair.learner[1][i] += 0.0075F;
  const auto lost = pair.send(1, 1);
  link::FragmentHeader header = lost.header;
  header.incarnation = 1;
  link::Bytes buffer;
  const auto again = pair.encoder.encode(header, pair.learner[1], {}, &pair.bases[1], buffer);
  FragmentEncoder fresh(pair.setup.wire, pair.setup.fragment_count(), 1);
  link::Bytes other;
  EXPECT_TRUE(
      std::ranges::equal(again, fresh.encode(header, pair.learner[1], {}, &pair.bases[1], other)));
  link::Bytes third;
  EXPECT_FALSE(std::ranges::equal(
      again, pair.encoder.encode(header, pair.learner[1], {}, &pair.bases[1], third)))
      << "the residual shows in the next message of the same life";
}

}  // namespace
}  // namespace archipelago::runtime
