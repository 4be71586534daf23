#include "emulate/conditions.h"

#include <gtest/gtest.h>

#include "config/options.h"
#include "core/error.h"

namespace archipelago::emulate {
namespace {

std::string refusal(const config::RunConfig& config, const Conditions& conditions = {}) {
  try {
    check(config, conditions);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    return line;
  }
  return {};
}

TEST(Conditions, StandBesideTheOptionsOfARun) {
  Conditions conditions;
  const auto options = options_of(conditions);
  const std::vector<std::string> words = {
      "--sync.learners", "5",    "--train.step_seconds", "1,2.5",
      "--link.latency",  "0.25", "--sync.merge_seconds", "2"};
  const config::RunConfig config = config::parse_run_config(words, {}, options);
  EXPECT_EQ(config.sync.learners, 5);
  EXPECT_EQ(conditions.step_seconds, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(conditions.merge_seconds, 2);
  EXPECT_EQ(site_of(conditions, 3).step_seconds, 2.5);
  EXPECT_EQ(site_of(conditions, 4).step_seconds, 1);
  EXPECT_EQ(site_of(conditions, 4).latency, 0.25);
  const std::vector<std::string> wrong = {"--train.step_second", "1"};
  EXPECT_THROW(config::parse_run_config(wrong, {}, options), Error);
}

TEST(Conditions, WhatCannotBeEmulatedIsRefusedInOneLine) {
  EXPECT_EQ(refusal({}), "");
  config::RunConfig config;
  config.method = "data-parallel";
  EXPECT_EQ(refusal(config), "");
  config.method = "diloco";
  config.sync.standby = 1;
  config.sync.ranks_per_learner = 2;
  config.device = "cuda";
  config.resume = true;
  config.chaos = "drop learner=0 time=3";
  const std::string line = refusal(config, {.step_seconds = {1, 0}});
  for (const char* part :
       {"method", "ranks_per_learner", "standby", "device", "resume", "step_seconds", "chaos"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
}

TEST(Conditions, TimesThatVirtualTimeCannotTellAreRefused) {
  config::RunConfig config;
  EXPECT_NE(refusal(config, {.step_seconds = {1, 1e-9}}).find("1e-6"), std::string::npos);
  config.train.steps = 1'000'000;
  EXPECT_EQ(refusal(config, {.step_seconds = {100}}), "");
  EXPECT_NE(refusal(config, {.step_seconds = {1000}}).find("ten years"), std::string::npos);
}

TEST(Conditions, APlanThatItPlaysIsTaken) {
  config::RunConfig config;
  config.chaos =
      "kill learner=turn every=9; slow learner=2 time=0; stop learner=0 step=9 when=join";
  EXPECT_EQ(refusal(config), "");
  config.chaos = "kill learner=1 step=3 when=transfer";
  EXPECT_NE(refusal(config).find("chaos"), std::string::npos);
  config.chaos = "kill learner=3 step=3";
  EXPECT_NE(refusal(config).find("there is no learner 3"), std::string::npos);
}

TEST(Conditions, AJoinThatNobodyWaitsForIsRefused) {
  config::RunConfig config;
  EXPECT_NE(refusal(config, {.join_seconds = 31}).find("sync.expel"), std::string::npos);
  config.sync.expel = 60;
  EXPECT_EQ(refusal(config, {.join_seconds = 31}), "");
}

}  // namespace
}  // namespace archipelago::emulate
