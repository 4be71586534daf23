#include "simulate/decoupled.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "simulate/site.h"
#include "sync/machine.h"

namespace archipelago::simulate {
namespace {

struct Decision {
  Nanoseconds time;
  std::vector<sync::Action> actions;
  bool operator==(const Decision&) const = default;
};

std::vector<Decision> decisions_of(const Scenario& scenario, std::uint64_t seed, Reports reports,
                                   std::int64_t* events = nullptr) {
  std::vector<Decision> decisions;
  simulate_decoupled(
      scenario, seed, reports,
      [&](Nanoseconds now, const sync::Event&, const std::vector<sync::Action>& actions) {
        if (events != nullptr) ++*events;
        if (!actions.empty()) decisions.push_back({now, actions});
      });
  return decisions;
}

Scenario random_scenario(std::uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.cluster.chips = 64 * (8 + static_cast<double>(random.below(500)));
  scenario.cluster.slice = 64;
  scenario.failure.mtbf_hours = 20 * (1 + 10 * random.uniform());  // a stall every few minutes
  scenario.failure.return_seconds = 100;
  scenario.failure.shape = random.below(2) == 0 ? 1 : 0.8;
  scenario.region = {random.below(2) == 0 ? 0 : 1e5, 0.3, 200};
  scenario.rack = {random.below(2) == 0 ? 0.0 : 256.0, 20, 100};
  scenario.train.days = 0.02;
  scenario.train.step_seconds = 0.3 + 2 * random.uniform();
  scenario.train.spread = random.uniform();
  scenario.train.jitter = 0.1 * random.uniform();
  scenario.sync.learners = 1 + static_cast<std::int64_t>(random.below(8));
  scenario.sync.interval = 4 + static_cast<double>(random.below(40));
  scenario.sync.fragments = 1 + static_cast<std::int64_t>(random.below(24));
  scenario.sync.overlap = 1 + static_cast<double>(random.below(3));
  scenario.sync.quorum = 1 + static_cast<std::int64_t>(
                                 random.below(static_cast<std::uint64_t>(scenario.sync.learners)));
  scenario.sync.suspect = 5 + 20 * random.uniform();
  scenario.sync.expel = 60;
  scenario.sync.spares = static_cast<std::int64_t>(random.below(3));
  if (random.below(2) == 0) scenario.link.gbps = {2 + 20 * random.uniform(), 0};
  if (random.below(2) == 0) scenario.link.latency = {0.05, 0.01, 0.2};
  return scenario;
}

TEST(Decoupled, LeavingReportsOutChangesNoDecision) {
  std::int64_t all = 0;
  std::int64_t needed = 0;
  std::size_t decisions = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const auto expected = decisions_of(scenario, seed, Reports::every_step, &all);
    const auto actual = decisions_of(scenario, seed, Reports::needed, &needed);
    ASSERT_EQ(actual.size(), expected.size()) << "seed " << seed;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i], expected[i]) << "seed " << seed << ", decision " << i;
    }
    decisions += actual.size();
  }
  EXPECT_GT(decisions, 10'000U);
  EXPECT_LT(needed, all * 9 / 10);
}

TEST(Decoupled, WithoutFailuresAllLearnersContributeToEveryRound) {
  Scenario scenario;
  scenario.failure.mtbf_hours = 1e12;
  scenario.sync.learners = 4;
  scenario.train.days = 0.1;
  const Outcome outcome = simulate_decoupled(scenario, 1);
  EXPECT_NEAR(outcome.goodput, 1, 1e-3);
  EXPECT_EQ(outcome.availability, 1);
  EXPECT_EQ(outcome.contributors, 4);
  EXPECT_NEAR(outcome.rounds, 0.1 * 86400, 10);  // H / P = 1 a step
  EXPECT_NEAR(outcome.staleness, 24, 2);         // H
  EXPECT_EQ(outcome.losses, 0);
}

TEST(Decoupled, ASlowLinkStretchesRoundsAndNotTraining) {
  Scenario scenario;
  scenario.failure.mtbf_hours = 1e12;
  scenario.train.days = 0.05;
  scenario.link.gbps = {0.2};  // 1e9 * 16 / 24 bits take 3.3 s
  const Outcome outcome = simulate_decoupled(scenario, 1);
  // 80 s until every learner has received the first state.
  EXPECT_NEAR(outcome.goodput, 1 - 80 / (0.05 * 86400), 1e-3);
  EXPECT_LT(outcome.rounds, 0.05 * 86400 / 3);
  EXPECT_GT(outcome.staleness, 60);
}

// A fragment is on its way for longer than Nanoseconds can say.
TEST(Decoupled, ALinkMayBeAsSlowAsItLikes) {
  Scenario scenario;
  scenario.failure.mtbf_hours = 1e12;
  scenario.train.days = 0.05;
  scenario.sync.learners = 4;
  for (const double gbps : {1e-10, 1e-20, 1e-300}) {
    scenario.link.gbps = {gbps};
    EXPECT_EQ(simulate_decoupled(scenario, 1).rounds, 0) << gbps;
    scenario.link.gbps = {0, gbps};
    const Outcome outcome = simulate_decoupled(scenario, 1);
    EXPECT_NEAR(outcome.goodput, 0.5, 1e-3) << gbps;
    EXPECT_EQ(outcome.contributions[3], 0) << gbps;
    EXPECT_GT(outcome.contributions[0], 1000) << gbps;
  }
}

TEST(Decoupled, LearnersOfASlowRegionGiveOlderFragments) {
  Scenario scenario;
  scenario.failure.mtbf_hours = 1e12;
  scenario.train.days = 0.05;
  scenario.sync.learners = 4;
  scenario.sync.grace = 0;  // nobody waits for the slow
  scenario.link.gbps = {0, 0.3};
  const Outcome outcome = simulate_decoupled(scenario, 1);
  EXPECT_EQ(outcome.contributions[0], outcome.contributions[1]);
  EXPECT_LT(outcome.contributions[3], outcome.contributions[0] / 2);
}

TEST(Decoupled, ALostLearnerIsReplacedByASpare) {
  Scenario scenario;
  scenario.cluster.chips = 4;
  scenario.cluster.slice = 1;
  scenario.sync.learners = 4;
  scenario.failure.mtbf_hours = 0.5;
  scenario.failure.return_seconds = 300;
  scenario.restart.down = 0;
  scenario.restart.join = 10;
  scenario.train.days = 4;
  const Outcome without = simulate_decoupled(scenario, 1);
  scenario.sync.spares = 2;
  const Outcome with = simulate_decoupled(scenario, 1);
  EXPECT_GT(without.losses, 50);
  EXPECT_NEAR(without.goodput, 0.5 / (0.5 + 310.0 / 3600), 0.03);
  EXPECT_GT(with.goodput, without.goodput + 0.05);
}

}  // namespace
}  // namespace archipelago::simulate
