#include "report/page.h"

#include <gtest/gtest.h>

#include "recorded_run.h"
#include "report/charts.h"

namespace archipelago::report {
namespace {

bool says(const std::string& page, const std::string& words) {
  return page.find(words) != page.npos;
}

TEST(Page, OfARunThatIsOverHasItsFigures) {
  const RecordedRun run("over");
  run.write(
      "summary.json",
      R"({"reason":"all tokens <are> trained","final_val_loss":1.23456,"goodput":0.975,)"
      R"("bytes_up":10485760,"losses":2,"rejoin_s":[0.5,0.25,4],"energy_per_token_j":"not available"})");
  const std::vector<History> runs = {read_history(run.folder())};
  const std::string page = page_of(runs);
  for (const char* words :
       {"all tokens &lt;are&gt; trained", "1.2346", "97.50 %", "<td>0.50</td>", "<td>550</td>",
        "training loss", "tokens a second", "learner 1", "its leader died", "not available"}) {
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
  EXPECT_TRUE(says(page, "2.5000"));
}

TEST(Charts, ALifeIsABarAndADeathACross) {
  const RecordedRun run("lives");
  const auto timeline = timeline_of(read_history(run.folder()));
  ASSERT_EQ(timeline.rows.size(), 2U);
  EXPECT_EQ(timeline.rows[0].spans.size(), 2U);
  ASSERT_EQ(timeline.rows[1].spans.size(), 3U);
  EXPECT_DOUBLE_EQ(timeline.rows[1].spans[1].begin, 2);
  EXPECT_DOUBLE_EQ(timeline.rows[1].spans[1].end, 2.5);
  EXPECT_EQ(timeline.rows[1].moments.size(), 1U);
}

TEST(Charts, APointIsTheMeanOfItsStretch) {
  const RecordedRun run("means");
  const std::vector<History> runs = {read_history(run.folder())};
  const auto panels = panels_of(runs);
  // Four and three steps a learner: one stretch each.
  ASSERT_EQ(panels[0].title, "training loss");
  EXPECT_DOUBLE_EQ(panels[0].lines[0].points.at(0).y, (5.0 + 3.0 + 2.0 + 1.5) / 4);
  EXPECT_DOUBLE_EQ(panels[0].lines[1].points.at(0).y, (4.0 + 3.5 + 1.25) / 3);
}

}  // namespace
}  // namespace archipelago::report
