#include "runtime/validator.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "tests/runtime/tiny_setup.h"

namespace archipelago::runtime {
namespace {

constexpr double kLong = 600;  // seconds: waited for only where something is wrong

TEST(Validator, OneIsWaitedForAsLongAsItIsSaid) {
  const runtime::Setup setup = tiny_setup(2);
  const GlobalState state(setup);
  std::promise<void> go;
  Validator validator([&](const GlobalState&) {
    go.get_future().wait();
    return evaluate::Score{2.5, {}, 0};
  });
  EXPECT_FALSE(validator.busy());
  EXPECT_FALSE(validator.take(kLong)) << "nothing was started";
  validator.start(7, 100, state);
  validator.start(8, 200, state);
  EXPECT_FALSE(validator.take());
  EXPECT_FALSE(validator.take(0.01));
  EXPECT_TRUE(validator.busy());
  go.set_value();
  const auto result = validator.take(kLong);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->round, 7);
  EXPECT_EQ(result->tokens, 100);
  EXPECT_EQ(result->score.loss, 2.5);
  EXPECT_FALSE(validator.busy());
}

TEST(Validator, AFailureIsOver) {
  const runtime::Setup setup = tiny_setup(2);
  Validator validator(
      [](const GlobalState&) -> evaluate::Score { throw std::runtime_error("no memory"); });
  validator.start(1, 1, GlobalState(setup));
  EXPECT_FALSE(validator.take(kLong));
  EXPECT_FALSE(validator.busy());
}

}  // namespace
}  // namespace archipelago::runtime
