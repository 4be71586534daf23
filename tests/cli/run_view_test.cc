#include "cli/run_view.h"

#include <gtest/gtest.h>

namespace archipelago::cli {
namespace {

LiveRun::Reading reading(const char* status, int age) {
  return {nlohmann::json::parse(status), std::chrono::seconds(age)};
}

constexpr const char* kTraining =
    R"({"state":"training","round":7,"tokens":1500,"token_budget":3000,"losses":1,"rejoins":1,
        "syncer":{"host":"a","pid":42,"term":1},
        "learners":[{"id":0,"incarnation":2,"host":"b","step":9,"tokens":900,"state":"active"},
                    {"id":3,"incarnation":0,"host":"c","step":6,"tokens":600,"state":"suspect"},
                    {"id":null,"incarnation":null,"host":"b","state":"spare"}]})";

bool says(const std::string& view, const std::string& words) {
  return view.find(words) != view.npos;
}

TEST(RunView, TellsOfTheRunAndEachLearner) {
  const std::string view =
      view_of(LiveRun("runs/mine"), reading(kTraining, 1), {{0, {1.25, 0.5}}}, 100);
  EXPECT_TRUE(says(view,
                   "runs/mine: training, round 7, 1500 of 3000 tokens (50.0 %), "
                   "100 a second, 15 s left\n1 learners lost, 1 rejoined\n"))
      << view;
  EXPECT_TRUE(says(view, "0       active       2        9           900     0.500   1.2500  b\n"))
      << view;
  EXPECT_TRUE(says(view, "3       suspect      0        6           600         -        -  c\n"))
      << view;
  EXPECT_TRUE(says(view, "spares: 1\nsyncer: a, process 42, taken over 1 time\n")) << view;
}

TEST(RunView, TellsThatNothingIsHeard) {
  EXPECT_TRUE(says(view_of(LiveRun("r"), reading(kTraining, 99), {}, 0),
                   "rejoined; nothing heard of it for 99 s"));
  EXPECT_FALSE(says(view_of(LiveRun("r"), reading(R"({"state":"done","learners":[]})", 99), {}, 0),
                    "nothing heard"));
}

TEST(RunView, TheNewestRowOfEachLearnerCounts) {
  const auto steps = last_steps(
      "5,\"step_s\":1}\n{\"learner\":1,\"loss\":3,\"step_s\":0.5}\n{\"round\":2}\n"
      "{\"learner\":0,\"loss\":2.5,\"step_s\":0.25}\n{\"learner\":1,\"loss\":2,\"step_s\":0.75}\n"
      "{\"learner\":0,\"lo");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_DOUBLE_EQ(steps.at(0).loss, 2.5);
  EXPECT_DOUBLE_EQ(steps.at(1).loss, 2);
  EXPECT_DOUBLE_EQ(steps.at(1).seconds, 0.75);
}

}  // namespace
}  // namespace archipelago::cli
