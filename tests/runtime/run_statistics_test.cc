#include "runtime/run_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace archipelago::runtime {
namespace {

constexpr std::int64_t kBatchTokens = 100;
constexpr double kLimit = 11;  // of losses

link::Report report(int learner, double step_seconds) {
  link::Report report;
  report.learner = learner;
  report.step_seconds = step_seconds;
  return report;
}

TEST(RunStatisticsTest, StartsWithTheFirstStep) {
  RunStatistics statistics(kBatchTokens, 2);
  EXPECT_FALSE(statistics.started());
  EXPECT_EQ(statistics.seconds(50), 0);
  statistics.add_step(report(0, 0.5), 100);
  EXPECT_TRUE(statistics.started());
  EXPECT_DOUBLE_EQ(statistics.seconds(110), 10.5) << "the first step's own time counts";
}

TEST(RunStatisticsTest, StartsWithTheFirstStepThoughALaterOneIsSeenFirst) {
  RunStatistics statistics(kBatchTokens, 2);
  statistics.set_learners(3, 90);
  link::Report third = report(0, 0.5);
  third.life_steps = 3;
  third.busy_seconds = 1.6;
  statistics.add_step(third, 100);
  EXPECT_NEAR(statistics.seconds(100), 1.6, 1e-9);
  third.life_steps = 10;
  third.busy_seconds = 5;
  EXPECT_NEAR(statistics.goodput(30 * kBatchTokens, 103.4, {third}), 1.0, 1e-9)
      << "three learners of half a second a step for five seconds";
}

TEST(RunStatisticsTest, WhatTookOverCountsFromThere) {
  RunStatistics statistics(kBatchTokens, 2);
  statistics.set_learners(4, 200);
  statistics.begin(200);
  link::Report living = report(0, 0.5);
  living.life_steps = 100;
  living.busy_seconds = 50;
  statistics.add_step(living, 203);
  EXPECT_DOUBLE_EQ(statistics.seconds(210), 10);
  EXPECT_DOUBLE_EQ(statistics.goodput(40 * kBatchTokens, 210, {living}), 0.5);
}

TEST(RunStatisticsTest, BlockedFractionIsOverAllLives) {
  RunStatistics statistics(kBatchTokens, 2);
  EXPECT_EQ(statistics.blocked_fraction({}), 0);
  link::Report dead = report(0, 0.1);
  dead.blocked_seconds = 1;
  dead.busy_seconds = 40;
  statistics.end_life(dead);
  link::Report living = report(1, 0.1);
  living.blocked_seconds = 2;
  living.busy_seconds = 60;
  EXPECT_DOUBLE_EQ(statistics.blocked_fraction({living}), 3.0 / 100);
}

TEST(RunStatisticsTest, JoulesAreThoseOfAllLivesOrNone) {
  RunStatistics statistics(kBatchTokens, 2);
  link::Report dead = report(0, 0.1);
  dead.joules = 5;
  statistics.end_life(dead);
  link::Report living = report(1, 0.1);
  living.joules = 7;
  EXPECT_EQ(statistics.joules({living}), 12);
  link::Report other = report(2, 0.1);
  other.joules = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(statistics.joules({living, other})));
}

TEST(RunStatisticsTest, GoodputComparesWithLearnersThatNeverBreakOff) {
  RunStatistics statistics(kBatchTokens, 2);
  EXPECT_EQ(statistics.goodput(0, 10, {}), 0);
  statistics.add_step(report(0, 0.5), 0.5 + 1000);
  // 20 s; learner 0 trains 40 steps of 0.5 s, learner 1 dies after 10 steps in 5 s.
  link::Report dead = report(1, 0.5);
  dead.busy_seconds = 5;
  dead.life_steps = 10;
  statistics.end_life(dead);
  link::Report living = report(0, 0.5);
  living.busy_seconds = 20;
  living.life_steps = 40;
  EXPECT_DOUBLE_EQ(statistics.goodput(50 * kBatchTokens, 1020, {living}), 50.0 / 80);
  EXPECT_EQ(statistics.goodput(100 * kBatchTokens, 1020, {living}), 1) << "a share";
  // One learner alone from the middle on.
  statistics.set_learners(1, 1010);
  EXPECT_DOUBLE_EQ(statistics.goodput(50 * kBatchTokens, 1020, {living}), 50.0 / 60);
}

TEST(RunStatisticsTest, MeanLossIsOfThoseThatHaveMadeAStep) {
  link::Report one = report(0, 0.1);
  one.loss = 4;
  link::Report other = report(1, 0.2);
  other.loss = 3;
  const link::Report joined = report(2, 0);
  EXPECT_DOUBLE_EQ(mean_loss({one, joined, other}, kLimit), 3.5);
  EXPECT_TRUE(std::isnan(mean_loss({joined}, kLimit)));
  EXPECT_TRUE(std::isnan(mean_loss({}, kLimit)));
}

TEST(RunStatisticsTest, MeanLossLeavesOutWhoHasDiverged) {
  link::Report sound = report(0, 0.1);
  sound.loss = 4;
  link::Report huge = report(1, 0.1);
  huge.loss = 1e30;
  link::Report nan = report(2, 0.1);
  nan.loss = std::nan("");
  EXPECT_DOUBLE_EQ(mean_loss({huge, sound, nan}, kLimit), 4);
  EXPECT_EQ(mean_loss_text({huge, sound, nan}, kLimit), "4.0000");
  EXPECT_EQ(mean_loss_text({huge}, kLimit), "1e+30");
  EXPECT_EQ(mean_loss_text({huge, nan}, kLimit), "not finite");
  EXPECT_EQ(mean_loss_text({}, kLimit), "not known yet");
}

TEST(RunStatisticsTest, LargestResidentMemoryStays) {
  RunStatistics statistics(kBatchTokens, 2);
  for (const std::int64_t bytes : {10, 30, 20}) {
    link::Report one = report(0, 1);
    one.resident_bytes = bytes;
    statistics.add_step(one, 1);
  }
  EXPECT_EQ(statistics.largest_resident_bytes(), 30);
}

}  // namespace
}  // namespace archipelago::runtime
