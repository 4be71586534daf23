#include "simulate/experiment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/checksum.h"
#include "core/error.h"
#include "simulate/decoupled.h"
#include "simulate/optimize.h"
#include "simulate/output.h"
#include "simulate/summary.h"
#include "sync/tape.h"

namespace archipelago::simulate {
namespace {

Scenario small() {
  Scenario scenario;
  scenario.train.days = 0.05;
  scenario.methods = "data-parallel,elastic,diloco,streaming-diloco,decoupled";
  return scenario;
}

std::vector<std::string> values(const std::string& sweep) {
  std::vector<std::string> result;
  for (const auto& point : sweep_points(Scenario(), sweep)) {
    std::string text;
    for (const auto& [name, value] : point) text += (text.empty() ? "" : " ") + name + "=" + value;
    result.push_back(text);
  }
  return result;
}

TEST(Sweeps, ListsRangesAndCombinations) {
  EXPECT_EQ(values(""), (std::vector<std::string>{""}));
  EXPECT_EQ(values("chips=150e3:600e3:x2"),
            (std::vector<std::string>{"cluster.chips=150000", "cluster.chips=300000",
                                      "cluster.chips=600000"}));
  EXPECT_EQ(values("sync.overlap=1:2:+0.5"),
            (std::vector<std::string>{"sync.overlap=1", "sync.overlap=1.5", "sync.overlap=2"}));
  EXPECT_EQ(
      values("learners=1,8;quorum=1,2"),
      (std::vector<std::string>{"sync.learners=1 sync.quorum=1", "sync.learners=1 sync.quorum=2",
                                "sync.learners=8 sync.quorum=1", "sync.learners=8 sync.quorum=2"}));
}

TEST(Sweeps, WrongOnesAreRefused) {
  for (const char* sweep :
       {"chips", "chps=1", "chips=1:2", "chips=1:2:x1", "chips=1:2:+0", "chips=a:b:x2", "chips="}) {
    EXPECT_THROW(sweep_points(Scenario(), sweep), Error) << sweep;
  }
  EXPECT_THROW(run_experiment(small(), "chips=-1", 1), Error);
  EXPECT_THROW(run_experiment(small(), "learners=100000", 1), Error);
}

TEST(Experiments, DoNotDependOnTheNumberOfThreads) {
  const std::string one = to_json(small(), run_experiment(small(), "chips=2e5,1e6", 1));
  EXPECT_EQ(to_json(small(), run_experiment(small(), "chips=2e5,1e6", 3)), one);
}

// Everything that is random, at once.
Scenario everything() {
  Scenario scenario = small();
  scenario.seeds = 2;
  scenario.cluster.chips = 1e6;
  scenario.failure.shape = 0.8;
  scenario.failure.age_hours = 1000;
  scenario.failure.return_shape = 0.7;
  scenario.failure.return_power = 1.3;
  scenario.failure.spot_share = 0.1;
  scenario.host = {128, 50'000, 1800};
  scenario.rack = {4096, 20'000, 3600};
  scenario.region = {250'000, 2, 900};
  scenario.checkpoint = {300, 2};
  scenario.train.jitter = 0.05;
  scenario.train.spread = 0.2;
  scenario.link = {{20, 0, 5}, {0.01, 0.05}};
  return scenario;
}

// They may change with the model, never with the machine, the compiler or the number of threads.
TEST(Experiments, GiveTheSameNumbersEverywhere) {
  const Scenario scenario = everything();
  for (const int threads : {1, 2, 5}) {
    const auto points = run_experiment(scenario, "", threads);
    const std::string csv = to_csv(points);
    EXPECT_EQ(to_hex(checksum(std::as_bytes(std::span(csv)))), "a9aaa1f8ac317819") << csv;
  }
  std::uint64_t decisions = 0;
  simulate_decoupled(scenario, 3, Reports::needed,
                     [&](sync::Nanoseconds now, const sync::Event& event,
                         const std::vector<sync::Action>& actions) {
                       const std::string line = sync::encode_entry(now, event, actions);
                       decisions = checksum(std::as_bytes(std::span(line)), decisions);
                     });
  EXPECT_EQ(to_hex(decisions), "d8a8c1aeea43420f");
}

TEST(Experiments, ConfidenceIntervalsOverSeeds) {
  Scenario scenario = small();
  scenario.methods = "elastic";
  scenario.seeds = 2;
  const Statistic both = run_experiment(scenario, "", 1)[0].results[0].statistics[0];
  scenario.seeds = 1;
  const double first = run_experiment(scenario, "", 1)[0].results[0].statistics[0].mean;
  scenario.seed = 2;
  const double second = run_experiment(scenario, "", 1)[0].results[0].statistics[0].mean;
  EXPECT_NE(first, second);
  EXPECT_DOUBLE_EQ(both.mean, (first + second) / 2);
  // Two values: t(1) = 12.706 times |difference| / 2.
  EXPECT_NEAR(both.half_width, 12.706 * std::abs(first - second) / 2, 1e-12);
}

TEST(Outputs, JsonAndCsvHoldEveryMethodAndQuantity) {
  const auto points = run_experiment(small(), "chips=2e5,1e6", 2);
  const auto json = nlohmann::json::parse(to_json(small(), points));
  EXPECT_EQ(json["points"].size(), 2U);
  EXPECT_EQ(json["points"][1]["options"]["cluster.chips"], "1e6");
  EXPECT_EQ(json["methods"], json["points"][0]["methods"]);
  for (const auto& [name, method] : json["methods"].items()) {
    EXPECT_GT(method["goodput"], 0) << name;
    EXPECT_LE(method["goodput"], 1) << name;
  }
  const std::string csv = to_csv(points);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 5);
  EXPECT_EQ(csv.substr(0, csv.find(',', 14)), "cluster.chips,method");
  const std::string svg = to_svg(points);
  for (const Quantity& quantity : quantities()) {
    EXPECT_NE(svg.find(quantity.title), std::string::npos);
    EXPECT_NE(to_table({points[0]}).find(quantity.name), std::string::npos);
  }
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Outputs, NumbersMayBeAsSmallAsTheyLike) {
  auto points = run_experiment(small(), "", 1);
  points[0].results.resize(1);
  points[0].results[0].statistics.back() = {1e-310, 0};
  const auto method = nlohmann::json::parse(to_json(small(), points))["methods"]["data-parallel"];
  EXPECT_NEAR(method[quantities().back().name].get<double>(), 1e-310, 1e-318);
}

TEST(Outputs, CostATokenOfNothingIsNoNumber) {
  Outcome nothing;
  set_rates(small(), {}, 0, nothing);
  EXPECT_TRUE(std::isnan(nothing.energy_per_token));
  EXPECT_TRUE(std::isnan(nothing.cost_per_token));

  auto points = run_experiment(small(), "", 1);
  points[0].results.resize(1);
  points[0].results[0].statistics.back() = {std::nan(""), std::nan("")};
  const std::string name = quantities().back().name;
  const auto method = nlohmann::json::parse(to_json(small(), points))["methods"]["data-parallel"];
  EXPECT_TRUE(method[name].is_null());
  EXPECT_TRUE(method[name + "_ci"].is_null());
  EXPECT_TRUE(method["goodput"].is_number());
  const std::string csv = to_csv(points);
  EXPECT_TRUE(csv.ends_with(",,\n")) << csv;
  EXPECT_TRUE(to_table(points).ends_with(" -\n")) << to_table(points);
  EXPECT_EQ(to_svg(points).find("nan"), std::string::npos);
}

TEST(Optimize, ManyLearnersWhereMuchFailsOneWhereNothingDoes) {
  Scenario scenario;
  scenario.train.days = 0.005;
  scenario.failure.mtbf_hours = 1e9;
  EXPECT_EQ(optimize(scenario, {}, 2).best.scenario.sync.learners, 1);
  scenario.failure.mtbf_hours = 8760;
  scenario.cluster.chips = 2.4e6;
  const Recommendation many = optimize(scenario, {}, 2);
  EXPECT_GE(many.best.scenario.sync.learners, 8);
  EXPECT_EQ(many.reasons.size(), 6U);
}

}  // namespace
}  // namespace archipelago::simulate
