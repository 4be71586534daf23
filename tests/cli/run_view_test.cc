#include "cli/run_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace archipelago::cli {
namespace {

LiveRun::Reading reading(const std::string& status, int age) {
  return {nlohmann::json::parse(status), std::chrono::seconds(age)};
}

constexpr const char* kTraining =
    R"({"state":"training","round":7,"tokens":1500,"token_budget":3000,"losses":1,"rejoins":1,
        "learners_wanted":3,"syncer":{"host":"a","pid":42,"term":1},
        "learners":[{"id":0,"incarnation":2,"host":"b","pids":[7,8],"step":9,"tokens":900,"state":"active"},
                    {"id":3,"incarnation":0,"host":"c","step":6,"tokens":600,"state":"suspect"},
                    {"id":null,"incarnation":null,"host":"b","state":"spare"}]})";
constexpr const char* kDone =
    R"({"state":"done","round":0,"tokens":8,"token_budget":8,"losses":2,"learners":[{"id":0}]})";

const NewestRows kRows{.learners = {{0, {1.25, 0.5, 100}}, {1, {2, 1, 900}}}, .seconds = 90};

bool says(const std::string& view, const std::string& words) {
  return view.find(words) != view.npos;
}

std::string view(const std::string& status, int age, bool has_syncer = true) {
  return view_of(LiveRun("runs/mine"), reading(status, age), kRows, has_syncer, std::nullopt);
}

TEST(RunView, TellsOfTheRunAndEachLearner) {
  const std::string shown = view(kTraining, 1);
  // The speed is that of active learners alone.
  EXPECT_TRUE(
      shown.starts_with("runs/mine: training for 90 s, round 7\n"
                        "1500 of 3000 tokens (50.0 %), 100 a second, 15 s left\n"
                        "1 of 3 learners active, 1 learner lost, 1 rejoined\n"))
      << shown;
  EXPECT_TRUE(
      says(shown, "0       active       2        9           900     0.500   1.2500  b 7 8\n"))
      << shown;
  EXPECT_TRUE(says(shown, "3       suspect      0        6           600         -        -  c\n"))
      << shown;
  EXPECT_TRUE(shown.ends_with("spares: 1\nsyncer: a, process 42, taken over 1 time\n")) << shown;
}

TEST(RunView, TellsFirstThatNothingIsHeard) {
  const std::string shown = view(kTraining, 75);
  EXPECT_TRUE(shown.starts_with("runs/mine: silent for 75 s (was training), round 7\n")) << shown;
  EXPECT_FALSE(says(shown, "left")) << shown;
}

TEST(RunView, OfARunThatIsOverHasNoSpares) {
  const std::string shown = view(kDone, 99, false);
  EXPECT_TRUE(
      shown.starts_with("runs/mine: done after 90 s\n8 of 8 tokens (100.0 %)\n"
                        "2 learners lost, 0 rejoined\n"))
      << shown;
  EXPECT_FALSE(says(shown, "spares")) << shown;
  EXPECT_TRUE(says(shown, "recorded by: ")) << shown;
  EXPECT_TRUE(says(view(kDone, 99, true), "syncer: "));
}

TEST(RunView, TellsVirtualTime) {
  auto status = nlohmann::json::parse(kTraining);
  status["virtual_s"] = 7200;
  const std::string shown = view(status.dump(), 1);
  EXPECT_TRUE(says(shown, ": training for 2.0 h of virtual time, round 7\n")) << shown;
  EXPECT_TRUE(says(shown, ", 100 a virtual second, ")) << shown;
  EXPECT_TRUE(says(shown, "emulated by: a, process 42")) << shown;
}

TEST(RunView, FitsTheTerminal) {
  auto status = nlohmann::json::parse(kTraining);
  for (int id = 4; id < 40; ++id) status["learners"].push_back({{"id", id}, {"host", "hé"}});
  const auto fitted = [&](Size size) {
    return view_of(LiveRun("r"), reading(status.dump(), 1), kRows, true, size);
  };
  const std::string shown = fitted({24, 80});
  EXPECT_EQ(std::ranges::count(shown, '\n'), 23);
  EXPECT_TRUE(shown.starts_with("r: training")) << shown;
  // 23 lines less 5 of the head, 2 of the foot and this one show 15 of 38 learners.
  EXPECT_TRUE(says(shown, "... and 23 more\nspares: 1\nsyncer: ")) << shown;
  EXPECT_FALSE(says(fitted({60, 80}), "more"));
  EXPECT_EQ(fitted({2, 80}), "r: training for 90 s, round 7\n");
  for (std::size_t columns = 1; columns < 80; ++columns) {
    const std::string narrow = fitted({24, columns});
    for (std::size_t from = 0; from < narrow.size(); from = narrow.find('\n', from) + 1) {
      EXPECT_LE(narrow.find('\n', from) - from, columns);
    }
    EXPECT_NO_THROW(static_cast<void>(nlohmann::json(narrow).dump())) << columns;  // valid UTF-8
  }
}

// Learner 0 with a learning rate and a gradient norm, in so many columns.
std::string wide_view(double loss, std::size_t columns) {
  NewestRows rows = kRows;
  rows.learners.at(0) = {loss, 1e7, 100, 0.0003, 1.25e30};
  return view_of(LiveRun("r"), reading(kTraining, 1), rows, true, Size{24, columns});
}

TEST(RunView, HasLearningRatesAndGradientNormsWhereThereIsRoom) {
  const std::string narrow = wide_view(1, 80);
  EXPECT_FALSE(says(narrow, "grad norm")) << narrow;
  const std::string wide = wide_view(1, 120);
  EXPECT_TRUE(says(wide,
                   "s/step     loss        lr grad norm  host, processes\n"
                   "0       active       2        9           900     1e+07   1.0000    "
                   "0.0003  1.25e+30  b 7 8\n"
                   "3       suspect      0        6           600         -        -"
                   "         -         -  c\n"))
      << wide;
  EXPECT_FALSE(says(view(kTraining, 1), "grad norm")) << "an older run";
}

TEST(RunView, HugeAndMissingLossesKeepTheColumns) {
  EXPECT_TRUE(says(wide_view(1e30, 80), "900     1e+07    1e+30  b 7 8\n"));
  EXPECT_TRUE(says(wide_view(std::nan(""), 80), "900     1e+07      nan  b 7 8\n"));
}

TEST(NewestRows, AreThoseOfEachLearnersNewestLife) {
  const auto rows = newest_rows(
      "5,\"step_s\":1}\n"
      R"({"t":1,"learner":1,"incarnation":0,"tokens":900,"loss":3,"step_s":0.5}
{"t":2,"learner":0,"incarnation":0,"tokens":100,"loss":2.5,"step_s":0.25}
{"t":2.5,"round":2}
{"t":3,"learner":1,"incarnation":1,"tokens":800,"loss":2,"step_s":0.75}
{"t":4,"learner":0,"incarnation":0,"tokens":150,"loss":2.25,"step_s":0.25}
{"t":6,"learner":0,"incarnation":0,"tokens":300,"loss":2,"step_s":0.5,"lr":0.25,"grad_norm":3}
{"t":7,"learner":0,"lo)");
  ASSERT_EQ(rows.learners.size(), 2U);
  EXPECT_DOUBLE_EQ(rows.learners.at(0).loss, 2);
  EXPECT_EQ(rows.learners.at(0).learning_rate, 0.25);
  EXPECT_EQ(rows.learners.at(0).gradient_norm, 3);
  EXPECT_FALSE(rows.learners.at(1).gradient_norm);
  EXPECT_DOUBLE_EQ(rows.learners.at(0).tokens_per_second, 50);  // 200 in 4 s
  EXPECT_DOUBLE_EQ(rows.learners.at(1).step_seconds, 0.75);
  EXPECT_DOUBLE_EQ(rows.learners.at(1).tokens_per_second, 0);  // a life of one row
  EXPECT_DOUBLE_EQ(rows.seconds, 6);
}

TEST(NewestRows, OfAnotherLaunchBeginAnew) {
  const auto rows = newest_rows(
      R"({"t":50,"learner":0,"tokens":900,"loss":3}
{"t":1,"learner":0,"tokens":1000,"loss":3}
{"t":2,"learner":0,"tokens":1100,"loss":3})");
  EXPECT_DOUBLE_EQ(rows.learners.at(0).tokens_per_second, 100);
  EXPECT_DOUBLE_EQ(rows.seconds, 2);
}

}  // namespace
}  // namespace archipelago::cli
