#include "report/page.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "recorded_run.h"
#include "report/charts.h"
#include "report/figures.h"

namespace archipelago::report {
namespace {

bool says(const std::string& page, const std::string& words) {
  return page.find(words) != page.npos;
}

TEST(Page, OfARunThatIsOverHasItsFigures) {
  const RecordedRun run("over");
  run.write(
      "summary.json",
      R"({"outcome":"complete","reason":"all tokens <are> trained","tokens":560,"final_val_loss":1.23456,"goodput":0.975,)"
      R"("bytes_up":10485760,"merged_share":0.8125,"contributors":2.75,"losses":2,"rejoin_s":[0.5,0.25,4],"energy_per_token_j":"not available"})");
  const std::vector<History> runs = {read_history(run.folder())};
  const std::string page = page_of(runs);
  for (const char* words :
       {"<td>complete: all tokens &lt;are&gt; trained</td>", "1.2346", "97.50 %", "81.25 %",
        "<td>2.75</td>", "<td>0.50</td>", "<td>560</td>", "training loss", "tokens a second",
        "learner 1", "died at 1.5 s: its leader died", "validation loss",
        "<title>archipelago-report-over</title>", "not available"}) {
    EXPECT_TRUE(says(page, words)) << words;
  }
  for (const char* words : {"nan", "http", "accuracy", "watts"}) {
    EXPECT_FALSE(says(page, words)) << words;
  }
}

TEST(Page, OfSeveralRunsHasALineForEach) {
  const RecordedRun one("one"), other("other");
  other.write("summary.json", R"({"reason":"all tokens are trained","final_val_loss":2.5})");
  const std::vector<History> runs = {read_history(one.folder()), read_history(other.folder())};
  EXPECT_EQ(legend_of(runs).names,
            (std::vector<std::string>{"archipelago-report-one", "archipelago-report-other"}));
  for (const auto& panel : panels_of(runs)) EXPECT_EQ(panel.lines.size(), 2U) << panel.title;
  const std::string page = page_of(runs);
  EXPECT_TRUE(says(page, "not ended"));
  EXPECT_TRUE(says(page, "<title>2 runs</title>"));
  EXPECT_TRUE(says(page, "2.5000"));
}

std::string value_of(const std::vector<History>& runs, const std::string& name) {
  for (const Group& group : groups_of(runs)) {
    for (const Row& row : group.rows) {
      if (row.name == name) return row.values.front();
    }
  }
  return "no such row";
}

TEST(Figures, OfSeveralLaunchesAreAddedUpOrNamedAsTheLastOnes) {
  const RecordedRun run("sums");
  run.write("summary.json", R"({"losses":1,"rejoins":0,"goodput":0.5,"rounds":7})");
  const std::vector<History> runs = {read_history(run.folder())};
  EXPECT_EQ(value_of(runs, "learners lost"), "2");
  EXPECT_EQ(value_of(runs, "rejoined"), "1");
  EXPECT_EQ(value_of(runs, "rounds"), "7");
  const auto groups = groups_of(runs);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[1].title, "of the last launch");
  EXPECT_EQ(groups[1].rows.at(0).name, "goodput");
}

TEST(Figures, OfARunThatGoesOnAreItsStatuss) {
  const RecordedRun run("goes-on");
  run.write("metrics.jsonl",
            R"({"t":1,"learner":0,"incarnation":0,"tokens":64,"loss":2.5,"step_s":0.5})");
  run.write("status.json", R"({"state":"training","tokens":96,"losses":3,"rejoins":2,"round":4})");
  const std::vector<History> runs = {read_history(run.folder())};
  EXPECT_EQ(value_of(runs, "outcome"), "training, not ended");
  EXPECT_EQ(value_of(runs, "tokens"), "96");
  EXPECT_EQ(value_of(runs, "learners lost"), "3");
  EXPECT_EQ(value_of(runs, "rejoined"), "2");
  EXPECT_EQ(value_of(runs, "rounds"), "4");
}

TEST(Figures, ShowTheSettingsThatCount) {
  const RecordedRun one("one-setting"), other("other-setting");
  one.write("config.ini",
            "method = decoupled\n[model]\nkind = moe\nexperts = 8\nwidth = 64\n"
            "[sync]\ninterval = 24\nquorum = 1\n");
  other.write("config.ini",
              "method = data-parallel\n[model]\nkind = gpt\nexperts = 8\n"
              "width = 64\n[sync]\ninterval = 24\nquorum = 1\n");
  other.write("summary.json", R"({"rounds":0})");
  const std::vector<History> runs = {read_history(one.folder()), read_history(other.folder())};
  const auto group = groups_of(runs).back();
  ASSERT_EQ(group.title, "settings");
  std::vector<std::string> rows;
  for (const Row& row : group.rows) {
    std::string text = row.name;
    for (const std::string& value : row.values) text += " " + value;
    rows.push_back(row.differs ? text + " !" : text);
  }
  EXPECT_EQ(rows,
            (std::vector<std::string>{"method decoupled data-parallel !", "model.kind moe gpt !",
                                      "model.width 64 64", "model.experts 8 – !",
                                      "sync.interval, H 24 – !", "sync.quorum, K 1 – !"}));
  EXPECT_TRUE(says(page_of(runs), "<tr class=\"differs\"><td>method</td>"));
  EXPECT_EQ(value_of({runs[1]}, "rounds"), "no such row");
}

TEST(Charts, ALifeIsABarAndADeathACross) {
  const RecordedRun run("lives");
  const auto timeline = timeline_of(read_history(run.folder()));
  ASSERT_EQ(timeline.rows.size(), 2U);
  EXPECT_EQ(timeline.rows[0].spans.size(), 2U);
  ASSERT_EQ(timeline.rows[1].spans.size(), 3U);
  EXPECT_DOUBLE_EQ(timeline.rows[1].spans[1].begin, 2);
  EXPECT_DOUBLE_EQ(timeline.rows[1].spans[1].end, 2.5);
  ASSERT_EQ(timeline.rows[1].moments.size(), 1U);
  EXPECT_DOUBLE_EQ(timeline.rows[1].moments[0].at, 1.25);  // noticed at 1.5
  ASSERT_EQ(timeline.lines.size(), 1U);
  EXPECT_DOUBLE_EQ(timeline.lines[0].at, 3);
}

History run_of_one(double seconds) {
  History run;
  run.learners = 1;
  run.seconds = seconds;
  return run;
}

TEST(Charts, WhoLeftWithoutAStepIsSignedWhenItLeft) {
  History run = run_of_one(9);
  run.departures = {{2, 0, Cause::expelled, "silent"}, {4, 0, Cause::retired, ""}};
  const auto moments = timeline_of(run).rows.at(0).moments;
  ASSERT_EQ(moments.size(), 2U);
  EXPECT_EQ(moments[0].label, "was expelled at 2 s: silent");
  EXPECT_EQ(moments[0].sign, chart::Sign::ring);
  EXPECT_EQ(moments[1].label, "retired at 4 s");
  EXPECT_EQ(moments[1].sign, chart::Sign::bar);
  EXPECT_DOUBLE_EQ(moments[1].at, 4);
}

const chart::Panel& panel(const std::vector<chart::Panel>& panels, const std::string& title) {
  for (const auto& each : panels) {
    if (each.title.starts_with(title)) return each;
  }
  throw std::out_of_range(title);
}

// A learner's steps, one a second but for a gap from 8 to 12 s, in which it waited 3 s.
History waiting_run() {
  History run = run_of_one(16);
  for (const double t : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16}) {
    const bool first = run.steps.empty();
    const double since = first ? 1 : t - run.steps.back().t;
    run.steps.push_back({.t = t,
                         .learner = 0,
                         .incarnation = 0,
                         .run_tokens = 0,
                         .gained = 40,
                         .loss = t == 1 ? 9.0 : 1.0,
                         .learning_rate = std::nullopt,
                         .gradient_norm = std::nullopt,
                         .seconds = 1,
                         .since = first ? std::nullopt : std::optional(since),
                         .blocked_seconds = since > 1 ? 3.0 : 0.0,
                         .joules = std::nullopt,
                         .accuracy = std::nullopt});
  }
  return run;
}

TEST(Charts, WaitsAreSharesOfTheTimeBetweenTwoRows) {
  const std::vector<History> runs = {waiting_run()};
  const auto panels = panels_of(runs);
  const auto& points = panel(panels, "time that learners waited").lines.at(0).points;
  ASSERT_EQ(points.size(), 3U);  // of 16 s / 3, the last one with the row of 12 s
  EXPECT_DOUBLE_EQ(points[0].y, 0);
  EXPECT_DOUBLE_EQ(points[2].y, 300.0 / 8);
}

TEST(Charts, TokensAreSpreadOverTheTimeInWhichTheyWereTrained) {
  const std::vector<History> runs = {waiting_run()};
  const auto panels = panels_of(runs);
  const auto& points = panel(panels, "tokens a second").lines.at(0).points;
  ASSERT_EQ(points.size(), 3U);
  const double width = 16.0 / 3;
  EXPECT_NEAR(points[0].y, 40, 1e-9);
  // 40 a second until 8 s, and 10 a second then.
  EXPECT_NEAR(points[1].y, (40 * (8 - width) + 10 * (2 * width - 8)) / width, 1e-9);
  EXPECT_NEAR(points[2].y, (10 * (12 - 2 * width) + 40 * 4) / width, 1e-9);
}

TEST(Charts, ATitleTellsWhereACutAxisBegins) {
  History run = run_of_one(200);
  for (int t = 1; t <= 200; ++t) {
    Step step = waiting_run().steps.back();
    step.t = t;
    step.run_tokens = 1'000'000 * t;
    step.loss = t <= 8 ? 9 : 1 - t / 1000.0;
    run.steps.push_back(step);
  }
  const std::vector<History> runs = {run};
  const auto panels = panels_of(runs);
  EXPECT_EQ(panel(panels, "training loss").title, "training loss (from 9)");
}

TEST(Charts, APointIsTheMeanOfItsStretch) {
  const RecordedRun run("means");
  const std::vector<History> runs = {read_history(run.folder())};
  const auto panels = panels_of(runs);
  // Four and three steps a learner: one stretch each.
  ASSERT_EQ(panels[0].title, "training loss");
  EXPECT_DOUBLE_EQ(panels[0].lines[0].points.at(0).y, (5.0 + 3.0 + 2.0 + 1.5) / 4);
  EXPECT_DOUBLE_EQ(panels[0].lines[1].points.at(0).y, (4.0 + 3.5 + 1.25) / 3);
  const auto& norms = panel(panels, "gradient norm");
  EXPECT_DOUBLE_EQ(norms.lines[1].points.at(0).y, 2 * (4.0 + 3.5 + 1.25) / 3);
  EXPECT_EQ(norms.across_label, "million tokens");
  EXPECT_DOUBLE_EQ(panel(panels, "learning rate").lines[1].points.at(0).y, 0.3 / 3);
}

}  // namespace
}  // namespace archipelago::report
