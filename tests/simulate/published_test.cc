// The published tables that inputs/simulate/ names, against what the files there give.
#include <gtest/gtest.h>

#include <cmath>

#include "simulate/bandwidth.h"
#include "simulate/exchange.h"
#include "simulate/methods.h"

namespace archipelago::simulate {
namespace {

// Options of the command that are not the scenario's.
Scenario read_scenario(const std::string& name) {
  Scenario scenario;
  std::string ignored;
  std::vector<config::Option> options = scenario_options(scenario);
  for (const char* other : {"sweep", "table", "utilisations"}) {
    options.push_back(config::text(other, ignored, "TEXT", ""));
  }
  config::read_ini_file(options, std::string(ARCHIPELAGO_INPUTS) + "/" + name);
  return scenario;
}

TEST(Published, GoodputOfDecoupledDiLoCoWithinTwoPoints) {
  Scenario scenario = read_scenario("paper-goodput.ini");
  const struct {
    double chips;
    double data_parallel, elastic, decoupled;
  } table[] = {{150e3, 72, 88, 98}, {1.2e6, 27, 58, 88}, {2.4e6, 18, 40, 80}};
  for (const auto& row : table) {
    scenario.cluster.chips = row.chips;
    scenario.train.days = 20;  // the single-job methods are cheap, and scatter more
    EXPECT_NEAR(100 * simulate(scenario, Method::data_parallel, 1).goodput, row.data_parallel, 2);
    EXPECT_NEAR(100 * simulate(scenario, Method::elastic, 1).goodput, row.elastic, 2);
    scenario.train.days = 2;
    EXPECT_NEAR(100 * simulate(scenario, Method::decoupled, 1).goodput, row.decoupled, 2);
  }
}

TEST(Published, MLearnersDoAsWellAsOneOfTheirShare) {
  Scenario scenario = read_scenario("paper-goodput.ini");
  scenario.cluster.chips = 1.2e6;
  scenario.train.days = 2;
  const double decoupled = simulate(scenario, Method::decoupled, 1).goodput;
  scenario.cluster.chips = 1.2e6 / 8;
  EXPECT_NEAR(simulate(scenario, Method::elastic, 1).goodput, decoupled, 0.02);
}

TEST(Published, TheGrid) {
  EXPECT_NEAR(grid_gbps(0), 0.1, 1e-12);
  EXPECT_NEAR(grid_gbps(49), 1000, 1e-9);
  EXPECT_NEAR(grid_gbps(36), 86.85, 0.01);
}

// Steps of the grid between a published value, which is rounded, and a point of it.
double steps_off(int point, double published) {
  return std::abs(point - (std::log10(published) + 1) * 49 / 4);
}

TEST(Published, BandwidthOfStreamingDiLoCoWithinOneStep) {
  const Scenario file = read_scenario("streaming-diloco-bandwidth.ini");
  const std::vector<double> utilisations = {0.5, 0.8, 0.9, 0.95, 0.99};
  const struct {
    Method method;
    double overlap, bits;
    std::vector<double> gbps;
  } table[] = {
      {Method::data_parallel, 1, 16, {86.8, 152.6, 184.2, 222.3, 569.0}},
      {Method::diloco, 1, 16, {1.4, 6.2, 13.3, 23.3, 86.8}},
      {Method::streaming_diloco, 0, 16, {1.4, 5.2, 9.1, 16.0, 28.1}},
      {Method::streaming_diloco, 1, 16, {1.4, 4.3, 6.2, 9.1, 11.0}},
      {Method::streaming_diloco, 1, 4, {0.4, 0.9, 1.7, 2.0, 3.0}},
  };
  for (const auto& row : table) {
    Scenario scenario = file;
    scenario.sync.overlap = row.overlap;
    scenario.model.bits = row.bits;
    for (std::size_t i = 0; i < utilisations.size(); ++i) {
      const int point = least_grid_point(exchange_of(scenario, row.method), utilisations[i]);
      // A third more for the rounding of published values like 0.9.
      EXPECT_LE(steps_off(point, row.gbps[i]), 1.34)
          << name_of(row.method) << " tau=" << row.overlap << " bits=" << row.bits << " at "
          << utilisations[i] << ": " << grid_gbps(point) << " for " << row.gbps[i];
    }
  }
}

// Also where a fragment leaves before the one before must be there.
TEST(Exchange, StreamingDiLoCoGoesNoFasterThanItsLink) {
  Exchange exchange{.method = Method::streaming_diloco, .interval = 24, .fragments = 24};
  for (const double overlap : {0, 1, 2, 5}) {
    exchange.overlap = overlap;
    // 16 bits of a 24th of 1e9 parameters, between two learners, in every step of a second.
    const double gigabits = 16.0 / 24;
    EXPECT_NEAR(utilisation(exchange, gigabits / 10), 0.1, 0.01) << overlap;
    EXPECT_LT(utilisation(exchange, 1e-300), 1e-200) << overlap;
    EXPECT_GT(utilisation(exchange, gigabits * 1000), 0.99) << overlap;
  }
}

TEST(Published, BandwidthOfDecoupledDiLoCoWithinOneStep) {
  Scenario scenario = read_scenario("paper-bandwidth.ini");
  const auto off = [&](Method method, double published) {
    return steps_off(least_grid_point(exchange_of(scenario, method), 0.9), published);
  };
  EXPECT_LE(off(Method::data_parallel, 104), 1);
  EXPECT_LE(off(Method::decoupled, 1.7), 1);
  scenario.model.parameters = 5.5e9;
  scenario.model.bits = 4;
  EXPECT_LE(off(Method::data_parallel, 198), 1);
  EXPECT_LE(off(Method::decoupled, 0.84), 1);
}

TEST(Published, ClosedFormOfDataParallel) {
  // With ever more buckets: B = 2 (1 - 1/M) * bits * N / (T (1/c - 1/3)).
  Exchange exchange;
  exchange.learners = 8;
  exchange.buckets = 4000;
  exchange.steps = 10;
  const double c = 0.9;
  const double gbps = 2 * (1 - 1.0 / 8) * 16 / (1 / c - 1.0 / 3);
  EXPECT_NEAR(utilisation(exchange, gbps), c, 1e-3);
}

}  // namespace
}  // namespace archipelago::simulate
