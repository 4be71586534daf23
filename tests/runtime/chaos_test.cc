#include "runtime/chaos.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/record_lines.h"

namespace archipelago::runtime {
namespace {

using sync::LearnerState;

std::vector<sync::LearnerView> learners(const std::vector<LearnerState>& states,
                                        std::int64_t step = 0, int incarnation = 0) {
  std::vector<sync::LearnerView> views;
  for (const LearnerState state : states) {
    sync::LearnerView view;
    view.state = state;
    view.step = step;
    view.incarnation = incarnation;
    views.push_back(view);
  }
  return views;
}

std::vector<sync::LearnerView> active(int count, std::int64_t step = 0, int incarnation = 0) {
  return learners(std::vector(static_cast<std::size_t>(count), LearnerState::active), step,
                  incarnation);
}

std::string refusal(const std::string& plan) {
  try {
    parse_chaos(plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
  ADD_FAILURE() << "not refused: " << plan;
  return "";
}

TEST(ChaosPlanTest, ReadsEveryWord) {
  const auto plan = parse_chaos(
      "kill learner=2 rank=1 step=150; stop learner=any time=30.5 seconds=5;"
      "slow learner=turn every=10 count=20 factor=3 seed=7 ;");
  ASSERT_EQ(plan.size(), 3U);
  EXPECT_EQ(plan[0].kind, FaultKind::kill);
  EXPECT_EQ(plan[0].victim, PlannedFault::Victim::given);
  EXPECT_EQ(plan[0].learner, 2);
  EXPECT_EQ(plan[0].rank, 1);
  EXPECT_EQ(plan[0].step, 150);
  EXPECT_EQ(plan[0].count, 1);
  EXPECT_EQ(plan[1].kind, FaultKind::stop);
  EXPECT_EQ(plan[1].victim, PlannedFault::Victim::any);
  EXPECT_EQ(plan[1].time, 30.5);
  EXPECT_EQ(plan[1].seconds, 5);
  EXPECT_EQ(plan[2].kind, FaultKind::slow);
  EXPECT_EQ(plan[2].victim, PlannedFault::Victim::turn);
  EXPECT_EQ(plan[2].every, 10);
  EXPECT_EQ(plan[2].count, 20);
  EXPECT_EQ(plan[2].factor, 3);
  EXPECT_EQ(plan[2].seed, 7U);
}

TEST(ChaosPlanTest, CountStandsBeforeOrAfterEvery) {
  EXPECT_EQ(parse_chaos("kill count=4 every=1")[0].count, 4);
  EXPECT_EQ(parse_chaos("kill every=1 count=4")[0].count, 4);
  EXPECT_LT(parse_chaos("kill every=1")[0].count, 0) << "without end";
}

TEST(ChaosPlanTest, EmptyPlanBreaksNothing) {
  EXPECT_TRUE(parse_chaos("").empty());
  EXPECT_TRUE(parse_chaos(" ; ;").empty());
}

TEST(ChaosPlanTest, NamesWhatIsWrong) {
  EXPECT_NE(refusal("burn learner=1 step=1").find("'burn'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=1 step").find("'step'"), std::string::npos);
  EXPECT_NE(refusal("kill lerner=1 step=1").find("'lerner'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=1 step=1x").find("'step=1x'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=-1 step=1").find("'learner=-1'"), std::string::npos);
  EXPECT_NE(refusal("kill every=0").find("'every=0'"), std::string::npos);
  EXPECT_NE(refusal("kill time=nan").find("'time=nan'"), std::string::npos);
  EXPECT_NE(refusal("slow time=1 factor=0.5").find("'factor=0.5'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=1").find("exactly one"), std::string::npos);
  EXPECT_NE(refusal("kill learner=1 step=1 time=2").find("exactly one"), std::string::npos);
  EXPECT_NE(refusal("kill learner=any step=1").find("step="), std::string::npos);
  EXPECT_NE(refusal("kill learner=0.5 step=1").find("'learner=0.5'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=1e12 step=1").find("'learner=1e12'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=9999999999 step=1").find("=9999999999'"), std::string::npos);
  EXPECT_NE(refusal("kill learner=1 step=1 count=0").find("'count=0'"), std::string::npos);
}

TEST(ChaosPlanTest, NamesTargetsThatTheRunHasNot) {
  const auto plan = parse_chaos("kill learner=2 rank=1 step=1; kill learner=any time=1");
  require_targets(plan, 3, 2);
  EXPECT_THROW(require_targets(plan, 2, 2), Error);
  EXPECT_THROW(require_targets(plan, 3, 1), Error);
  EXPECT_THROW(require_targets(parse_chaos("kill time=1 victims=4"), 3, 1), Error);
}

TEST(ChaosTest, StepComesDueOnce) {
  Chaos chaos(parse_chaos("kill learner=1 rank=1 step=10"));
  EXPECT_TRUE(chaos.due(0, active(2, 9)).empty());
  const auto faults = chaos.due(0, active(2, 10));
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].learner, 1);
  EXPECT_EQ(faults[0].rank, 1);
  EXPECT_TRUE(chaos.due(1, active(2, 11)).empty());
}

TEST(ChaosTest, TimeComesDueOnce) {
  Chaos chaos(parse_chaos("kill learner=0 time=2"));
  EXPECT_TRUE(chaos.due(1.99, active(1)).empty());
  EXPECT_EQ(chaos.due(2, active(1)).size(), 1U);
  EXPECT_TRUE(chaos.due(3, active(1)).empty());
}

TEST(ChaosTest, KindsMomentsAndVictimsAreRead) {
  const auto plan = parse_chaos(
      "drop learner=0 time=1; corrupt learner=1 step=2; stall time=3 seconds=4; fill time=5; "
      "stop learner=any time=6 when=checkpoint; kill learner=turn time=7 victims=2");
  ASSERT_EQ(plan.size(), 6U);
  EXPECT_EQ(plan[0].kind, FaultKind::drop);
  EXPECT_EQ(plan[1].kind, FaultKind::corrupt);
  EXPECT_EQ(plan[2].kind, FaultKind::stall);
  EXPECT_EQ(plan[3].kind, FaultKind::fill);
  EXPECT_EQ(plan[4].moment, Moment::checkpoint);
  EXPECT_EQ(plan[5].victims, 2);
  for (const char* wrong :
       {"drop learner=0 time=1 when=join", "kill time=1 when=tomorrow", "fill learner=1 time=2",
        "kill learner=1 time=2 victims=2", "kill learner=any time=1 victims=0",
        "kill time=1 time=2", "drown time=1"}) {
    EXPECT_THROW(parse_chaos(wrong), Error) << wrong;
  }
}

TEST(ChaosTest, WhenJoiningWaitsForAJoiner) {
  Chaos chaos(parse_chaos("kill learner=0 time=1 when=join"));
  EXPECT_TRUE(chaos.due(2, active(2)).empty());
  const auto faults = chaos.due(3, learners({LearnerState::joining, LearnerState::joining}, 0, 1));
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].learner, 0);
  EXPECT_EQ(faults[0].moment, Moment::join);
}

TEST(ChaosTest, TwoAtOnceAreTwoDifferentOnes) {
  Chaos chaos(parse_chaos("kill learner=any time=1 victims=2"));
  EXPECT_TRUE(chaos.due(2, learners({LearnerState::active, LearnerState::lost})).empty())
      << "there is only one";
  const auto faults = chaos.due(3, active(2));
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_NE(faults[0].learner, faults[1].learner);
  EXPECT_TRUE(chaos.due(4, active(2)).empty());
}

TEST(ChaosTest, WaitsForAVictimThatLives) {
  Chaos chaos(parse_chaos("kill learner=1 time=1"));
  EXPECT_TRUE(chaos.due(2, learners({LearnerState::active, LearnerState::lost})).empty());
  EXPECT_EQ(chaos.due(3, learners({LearnerState::active, LearnerState::joining})).size(), 1U);
}

TEST(ChaosTest, ALifeIsKilledOnce) {
  Chaos chaos(
      parse_chaos("kill learner=0 step=10; kill learner=0 step=10; slow learner=0 step=11"));
  auto views = active(1, 10);
  ASSERT_EQ(chaos.due(0, views).size(), 1U);
  EXPECT_TRUE(chaos.due(1, views).empty()) << "its death has not been seen yet";
  views[0].incarnation = 1;
  ASSERT_EQ(chaos.due(2, views).size(), 1U);
  EXPECT_EQ(chaos.due(3, views).size(), 0U);
  views[0].incarnation = 2;
  views[0].step = 11;
  EXPECT_EQ(chaos.due(4, views).at(0).kind, FaultKind::slow);
}

TEST(ChaosTest, ALearnerThatDoesNotExistIsNeverHit) {
  Chaos chaos(parse_chaos("kill learner=5 step=1; kill learner=5 time=1"));
  EXPECT_TRUE(chaos.due(100, active(2, 100)).empty());
}

TEST(ChaosTest, TurnTakesOneAfterTheOtherAndPassesOverTheDead) {
  Chaos chaos(parse_chaos("kill learner=turn every=0.001 count=5"));
  std::vector<int> victims;
  for (int i = 1; i <= 3; ++i) victims.push_back(chaos.due(i, active(3, 0, i)).at(0).learner);
  EXPECT_EQ(victims, (std::vector<int>{0, 1, 2}));
  const auto others =
      learners({LearnerState::lost, LearnerState::suspect, LearnerState::active}, 0, 4);
  EXPECT_EQ(chaos.due(4, others).at(0).learner, 1);
  EXPECT_EQ(chaos.due(5, active(3, 0, 5)).at(0).learner, 1);
  EXPECT_TRUE(chaos.due(6, active(3, 0, 6)).empty()) << "five times are over";
}

TEST(ChaosTest, EveryIsExponentialWithItsMean) {
  Chaos chaos(parse_chaos("kill learner=any every=2 count=4000 seed=3"));
  constexpr double kTick = 0.01;
  std::int64_t tick = 0;
  std::map<int, int> hits;
  int total = 0;
  double shorter_than_mean = 0;
  double last = 0;
  for (; total < 4000; ++tick) {
    const double now = static_cast<double>(tick) * kTick;
    for (const auto& fault : chaos.due(now, active(4, 0, static_cast<int>(tick)))) {
      ++hits[fault.learner];
      ++total;
      shorter_than_mean += now - last < 2 ? 1 : 0;
      last = now;
    }
  }
  EXPECT_NEAR(last / total, 2, 0.1);                               // standard error 0.03
  EXPECT_NEAR(shorter_than_mean / total, 1 - std::exp(-1), 0.03);  // 0.008
  for (int learner = 0; learner < 4; ++learner) EXPECT_NEAR(hits[learner], 1000, 120);  // 27
}

TEST(ChaosTest, WhatHasStruckStrikesNoMore) {
  const auto plan = parse_chaos(
      "kill learner=1  step=40; kill learner=0 step=40; stop learner=any time=9 count=3;"
      "kill learner=any time=5 victims=2; slow learner=2 time=3; slow learner=2 time=3");
  std::map<std::string, int> faults;
  Chaos chaos(plan, {{"kill learner=1 step=40", 1},
                     {"stop learner=any time=9 count=3", 2},
                     {"kill learner=any time=5 victims=2", 2},
                     {"slow learner=2 time=3", 1},
                     {"slow learner=2 time=4", 1}});
  for (int second = 0; second < 20; ++second) {
    for (const auto& fault : chaos.due(second, active(4, 100, second))) ++faults[fault.entry];
  }
  EXPECT_EQ(faults, (std::map<std::string, int>{{"kill learner=0 step=40", 1},
                                                {"stop learner=any time=9 count=3", 1},
                                                {"slow learner=2 time=3", 1}}));
}

TEST(ChaosTest, ATapeTellsWhatHasStruck) {
  const auto tape = std::filesystem::temp_directory_path() /
                    ("chaos_test." + std::to_string(::getpid()) + ".jsonl");
  EXPECT_TRUE(struck_faults(tape).empty());
  Fault fault;
  fault.entry = "kill learner=1 step=40";
  std::ofstream(tape) << "{\"t\":1,\"event\":{\"type\":\"tick\"},\"actions\":[]}\n"
                      << fault_line(5, fault, {}).dump() << '\n'
                      << fault_line(9, fault, {}).dump() << '\n'
                      << R"({"t":9,"fault":{"kind":"kill"}})" << '\n'
                      << R"({"t":9,"fault":{"entry":"kill l)";
  EXPECT_EQ(struck_faults(tape), (StruckFaults{{fault.entry, 2}}));
  std::filesystem::remove(tape);
}

TEST(ChaosTest, WithoutASyncerThereAreKillsAndSlowness) {
  require_kills_and_slowness(parse_chaos("kill learner=1 step=3 rank=1; slow learner=any time=2"));
  for (const char* plan : {"drop learner=1 step=3", "fill time=1", "stop learner=1 step=3",
                           "kill learner=1 step=3 when=join"}) {
    EXPECT_THROW(require_kills_and_slowness(parse_chaos(plan)), Error) << plan;
  }
}

TEST(ChaosTest, TheSameSeedGivesTheSameFaults) {
  const auto victims = [](const std::string& seed) {
    Chaos chaos(parse_chaos("kill learner=any every=1 seed=" + seed));
    std::vector<std::pair<int, int>> hits;
    for (int second = 0; second < 200; ++second) {
      for (const auto& fault : chaos.due(second, active(5, 0, second)))
        hits.push_back({second, fault.learner});
    }
    return hits;
  };
  EXPECT_EQ(victims("5"), victims("5"));
  EXPECT_NE(victims("5"), victims("6"));
}

}  // namespace
}  // namespace archipelago::runtime
