#include "simulate/site.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/error.h"
#include "simulate/summary.h"

namespace archipelago::simulate {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

class Traced : public testing::Test {
 protected:
  Traced() {
    scenario.cluster.chips = 4;
    scenario.cluster.slice = 1;
    scenario.restart.down = 3;
    scenario.restart.up = 2;
    scenario.restart.up_wait = 10;
    scenario.failure.trace = path.string();
  }
  ~Traced() override { std::filesystem::remove(path); }

  Site site(const std::string& trace, std::int64_t slices = 4) {
    std::ofstream(path) << "time_s,chip,return_s\n" << trace;
    SiteSettings settings;
    settings.slices = slices;
    settings.step = kSecond;
    settings.step_tokens = 100;
    return Site(scenario, settings, read_trace(path.string(), 1e9), 1);
  }

  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("site-test-" + std::to_string(std::rand()) + ".csv");
  Scenario scenario;
};

TEST_F(Traced, ALossStallsAndShrinksAReturnWaitsAndGrows) {
  Site site = this->site("10.5,1,20\n");
  const Stretch first = site.stretch_after(0);
  EXPECT_EQ(first.begin, 0);
  EXPECT_EQ(first.end, 10'500'000'000);
  EXPECT_EQ(first.step_tokens, 100);
  const Stretch second = site.stretch_after(first.end);
  EXPECT_EQ(second.begin, 13'500'000'000);  // down 3 s
  EXPECT_EQ(second.end, 40'500'000'000);    // back at 30.5 s, waits 10 s
  EXPECT_EQ(second.step_tokens, 75);
  EXPECT_EQ(second.steps, 10);  // the eleventh step was cut off
  EXPECT_EQ(second.tokens, 1000);
  const Stretch third = site.stretch_after(second.end);
  EXPECT_EQ(third.begin, 42'500'000'000);  // up 2 s
  EXPECT_EQ(third.step_tokens, 100);
  EXPECT_EQ(third.tokens, 1000 + 27 * 75);
}

TEST_F(Traced, AReturnRidesOnTheNextStall) {
  Site site = this->site("10,1,5\n20,2,1000\n");
  const Stretch third = site.stretch_after(24 * kSecond);
  EXPECT_EQ(third.begin, 23 * kSecond);
  EXPECT_EQ(third.step_tokens, 75);  // slice 1 is back in, slice 2 is away
}

TEST_F(Traced, WhatHappensInAStallIsTakenInAtItsEnd) {
  Site site = this->site("10,1,1\n11,2,1000\n");
  const Stretch second = site.stretch_after(10 * kSecond);
  EXPECT_EQ(second.begin, 13 * kSecond);
  EXPECT_EQ(second.step_tokens, 75);
}

TEST_F(Traced, WithoutItsLastSliceTheSiteDies) {
  Site site = this->site("10,0,30\n", 1);
  EXPECT_TRUE(site.stretch_after(0).dies);
  EXPECT_FALSE(site.boundary_after(10 * kSecond).has_value() &&
               site.boundary_after(9'500'000'000)->time > 10 * kSecond);
  EXPECT_EQ(site.next_death(0, 100 * kSecond), 10 * kSecond);
  EXPECT_GE(site.stretch_after(10 * kSecond).begin, 40 * kSecond);
}

TEST_F(Traced, BoundariesSkipStalls) {
  Site site = this->site("10.5,1,1000\n");
  EXPECT_EQ(site.boundary_after(0)->time, kSecond);
  EXPECT_EQ(site.boundary_after(kSecond)->time, 2 * kSecond);
  const Boundary after = *site.boundary_after(10 * kSecond);
  EXPECT_EQ(after.time, 14'500'000'000);
  EXPECT_EQ(after.steps, 11);
  EXPECT_EQ(after.tokens, 1075);
  EXPECT_EQ(site.done_by(12 * kSecond).steps, 10);
}

TEST_F(Traced, ABrokenTraceIsNamed) {
  EXPECT_THROW(site("10,1\n"), Error);
  EXPECT_THROW(site("10,1,1\n5,1,1\n"), Error);
  EXPECT_THROW(site("10,1,-1\n"), Error);
  EXPECT_THROW(read_trace("/nonexistent.csv", 4), Error);
  EXPECT_THROW(read_trace("/", 4), std::system_error);
  std::ofstream(path) << "10,3,1\n11,4,1\n";
  EXPECT_EQ(read_trace(path.string(), 5).size(), 2U);
  try {
    read_trace(path.string(), 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(":2: there is no chip 4"), std::string::npos);
  }
}

TEST(Sites, FailAsOftenAsTheirChipsSay) {
  Scenario scenario;
  scenario.cluster.chips = 100'000;
  scenario.restart.up_wait = 1e6;  // no stalls but those of failures
  const Nanoseconds end = 20LL * 86400 * kSecond;
  std::vector<Site> sites = make_sites(scenario, 1, 0, true, 3);
  int failures = 0;
  for (Nanoseconds time = 0; time < end; ++failures) time = sites[0].stretch_after(time).end;
  // One a chip and year: 100,000 * 20 / 365, less those that fall into stalls of 18.5 s.
  const double mean = 8760 * 3600 / 1e5;
  const double expected = 20 * 86400 / (mean + 18.5);
  EXPECT_NEAR(failures, expected, 4 * std::sqrt(expected));
}

// Chips of a Weibull life that are all new: by time t, each has failed with 1 - exp(-(t /
// scale)^k), and few of them twice.
TEST(Sites, YoungChipsFailMoreOftenWhereTheShapeIsBelowOne) {
  Scenario scenario;
  scenario.cluster.chips = 100'000;
  scenario.restart = {0, 0, 1e6, 0, 0, 0};
  scenario.failure.shape = 0.5;
  scenario.failure.return_seconds = 1;
  const double scale = 8760 * 3600 / 2.0;  // mean = scale Gamma(1 + 1 / 0.5)
  const auto failures_within = [&](double age_hours, double days) {
    scenario.failure.age_hours = age_hours;
    std::vector<Site> sites = make_sites(scenario, 1, 0, true, 3);
    const Nanoseconds end = to_nanoseconds(days * 86400);
    int failures = 0;
    for (Nanoseconds time = sites[0].stretch_after(0).end; time < end; ++failures) {
      time = sites[0].stretch_after(time).end;
    }
    return failures;
  };
  const auto expected = [&](double from, double to) {
    return 1e5 * (std::exp(-std::sqrt(from / scale)) - std::exp(-std::sqrt(to / scale)));
  };
  // Failed chips are young again: beyond the first failures come some of theirs.
  const int young = failures_within(0, 0.05);
  EXPECT_NEAR(young, expected(0, 0.05 * 86400), 0.06 * young);
  const int old = failures_within(8760, 0.5);
  EXPECT_NEAR(old,
              expected(8760 * 3600, 8760 * 3600 + 0.5 * 86400) * 1e5 /
                  (1e5 * std::exp(-std::sqrt(8760 * 3600 / scale))),
              0.25 * old);
}

TEST(Sites, HostsRacksAndRegionsFailAsOne) {
  Scenario scenario;
  scenario.cluster.chips = 64'000;
  scenario.failure.mtbf_hours = 1e9;
  scenario.restart = {0, 0, 1e6, 0, 0, 0};
  scenario.host = {128, 10'000, 600};
  std::vector<Site> hosts = make_sites(scenario, 1, 0, true, 5);
  // 500 hosts, one failure in 20 hours; two slices each.
  const Stretch first = hosts[0].stretch_after(0);
  const Stretch second = hosts[0].stretch_after(first.end);
  EXPECT_DOUBLE_EQ(second.capacity, 998.0 / 1000);
  EXPECT_FALSE(first.dies);

  // A region holds two of four learners, which go at once.
  scenario.host.size = 0;
  scenario.region = {32'000, 100, 600};
  std::vector<Site> learners = make_sites(scenario, 4, 0, true, 5);
  const Nanoseconds end = to_nanoseconds(1e7);
  EXPECT_EQ(learners[0].next_death(0, end), learners[1].next_death(0, end));
  EXPECT_EQ(learners[2].next_death(0, end), learners[3].next_death(0, end));
  EXPECT_NE(learners[0].next_death(0, end), learners[2].next_death(0, end));
}

TEST_F(Traced, WithoutElasticityStepsSinceTheCheckpointAreUndone) {
  scenario.restart.rigid_down = 3;
  scenario.checkpoint = {4, 0};
  std::ofstream(path) << "time_s,chip,return_s\n10.5,1,20\n";
  SiteSettings settings;
  settings.slices = 4;
  settings.step = kSecond;
  settings.step_tokens = 100;
  settings.elastic = false;
  Site site(scenario, settings, read_trace(path.string(), 1e9), 1);
  EXPECT_EQ(site.done_by(10 * kSecond).steps, 10);
  const Stretch second = site.stretch_after(11 * kSecond);
  EXPECT_EQ(second.steps, 8);  // checkpoints after steps 4 and 8
  EXPECT_EQ(second.tokens, 800);
}

TEST(Sites, TimesAgreeWithARenewalModel) {
  Scenario scenario;
  scenario.cluster.chips = 600'000;
  scenario.restart.up = 0;
  scenario.train.step_seconds = 0.01;  // next to nothing is lost of a step
  const SiteTimes times = times_of(make_sites(scenario, 1, 0, true, 3), 50LL * 86400 * kSecond);
  const double mean = 8760 * 3600 / 6e5;
  EXPECT_NEAR(times.training, mean / (mean + 18.5), 0.005);
  // Away: 64 chips a failure for 600 s, a failure every 52.6 s.
  EXPECT_NEAR(1 - times.capacity, 64.0 * 600 / mean / 6e5, 2e-4);
}

}  // namespace
}  // namespace archipelago::simulate
