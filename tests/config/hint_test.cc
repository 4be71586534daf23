#include "config/hint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace archipelago::config {
namespace {

RunConfig run_of(std::int64_t steps, double momentum) {
  RunConfig config;
  config.train.steps = steps;
  config.sync.interval = 24;
  config.sync.outer_momentum = momentum;
  return config;
}

TEST(OuterMomentumHint, TheDefaultIsTooHighForAShortRun) {
  const auto short_run = outer_momentum_hint(run_of(1000, 0.9));
  ASSERT_TRUE(short_run);
  EXPECT_NE(short_run->find("about 42 times; a sync.outer_momentum of 0.5 "), std::string::npos)
      << *short_run;
  const auto longer = outer_momentum_hint(run_of(8000, 0.9));
  ASSERT_TRUE(longer);
  EXPECT_NE(longer->find("of 0.7 "), std::string::npos) << *longer;
  EXPECT_FALSE(outer_momentum_hint(run_of(12'000, 0.9)));
}

TEST(OuterMomentumHint, NothingWhereItFits) {
  EXPECT_FALSE(outer_momentum_hint(run_of(1000, 0.5)));
  EXPECT_TRUE(outer_momentum_hint(run_of(1000, 0.7)));
  EXPECT_FALSE(outer_momentum_hint(run_of(4000, 0.75)));
}

TEST(OuterMomentumHint, NothingWithoutAnOuterStep) {
  RunConfig config = run_of(1000, 0.9);
  config.method = "diloco";
  EXPECT_TRUE(outer_momentum_hint(config));
  config.method = "data-parallel";
  EXPECT_FALSE(outer_momentum_hint(config));
}

}  // namespace
}  // namespace archipelago::config
