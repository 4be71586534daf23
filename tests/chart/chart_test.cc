#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "chart/number.h"
#include "chart/panel.h"
#include "chart/timeline.h"

namespace archipelago::chart {
namespace {

using Values = std::vector<double>;

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(Ticks, AreRoundAndWithinTheAxis) {
  EXPECT_EQ((Axis{0, 10}.ticks(5)), (Values{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ((Axis{0, 825}.ticks(6)), (Values{0, 200, 400, 600, 800}));
  const Values decimals = Axis{1.13, 1.96}.ticks(5);
  ASSERT_EQ(decimals.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(decimals[i], 1.2 + 0.2 * static_cast<double>(i), 1e-12);
  }
  EXPECT_FALSE(std::signbit(Axis{-0.5, 1}.ticks(3)[1]));
}

TEST(Ticks, OfALogarithmicAxis) {
  EXPECT_EQ((Axis{1, 20, true}.ticks(5)), (Values{1, 2, 5, 10, 20}));
  EXPECT_EQ((Axis{0.9, 1e6, true}.ticks(5)), (Values{1, 10, 100, 1e3, 1e4, 1e5, 1e6}));
}

TEST(Ticks, AnAxisOfOneValueHasOne) { EXPECT_EQ((Axis{3, 3}.ticks(5)), (Values{3})); }

TEST(Ticks, OfAnAxisTooNarrowToBeDividedAreOne) {
  const double next = std::nextafter(2.0, 3.0);
  EXPECT_EQ((Axis{2, next}.ticks(5)), (Values{2}));
  EXPECT_EQ((Axis{1e30, 1e30 * (1 + 1e-15)}.ticks(5)), (Values{1e30}));
  EXPECT_GT((Axis{1e30, 1e30 * (1 + 1e-9)}.ticks(5)).size(), 2U);
}

TEST(Numbers, AreShort) {
  EXPECT_EQ(short_number(0.123456), "0.123");
  EXPECT_EQ(short_number(std::nan("")), "-");
  EXPECT_EQ(tick_label(0), "0");
  EXPECT_EQ(tick_label(999), "999");
  EXPECT_EQ(tick_label(30000), "30k");
  EXPECT_EQ(tick_label(-2.4e6), "-2.4M");
  EXPECT_EQ(tick_label(999.6), "1k");
  EXPECT_EQ(tick_label(999.6e12), "1P");
  EXPECT_EQ(tick_label(1.2e15), "1.2P");
  EXPECT_EQ(tick_label(3e21), "3e+21");
}

TEST(Axes, ShareOfALogarithmicAxis) {
  EXPECT_DOUBLE_EQ((Axis{1, 100, true}.share(10)), 0.5);
  EXPECT_DOUBLE_EQ((Axis{10, 20}.share(15)), 0.5);
  EXPECT_DOUBLE_EQ((Axis{7, 7}.share(7)), 0.5);
}

TEST(Axes, ASettledOneLeavesOutTheSteepBeginning) {
  Line line{"loss", {}, 0};
  for (int i = 0; i < 100; ++i)
    line.points.push_back({double(i), i < 5 ? 100.0 - i : 2.0 - i / 100.0});
  const Axis axis = up_settled({line});
  EXPECT_DOUBLE_EQ(axis.low, 1.01);
  EXPECT_DOUBLE_EQ(axis.high, 1.95);
}

TEST(Panels, ALineIsBrokenWhereThereIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Panel panel{.title = "a < b & \"c\"",
              .across_label = "",
              .across = {0, 4},
              .up = {0, 1},
              .across_ticks = {0, 4},
              .lines = {{"one", {{0, 0.5}, {1, 0.6}, {2, nan}, {3, 0.7}, {4, 5}}, 0}}};
  const std::string svg = draw(panel);
  EXPECT_EQ(count(svg, "<polyline"), 2U);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  // 5 lies above the axis: at its edge, where 1 would be.
  panel.lines[0].points.back().y = 1;
  EXPECT_EQ(draw(panel), svg);
}

TEST(Panels, APointAloneIsADot) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Panel panel{.title = "",
              .across_label = "seconds",
              .across = {0, 4},
              .up = {0, 1},
              .across_ticks = {},
              .lines = {{"one", {{0, 0.5}, {1, nan}, {2, 0.5}, {3, 0.5}, {4, nan}}, 0}}};
  EXPECT_EQ(count(draw(panel), "<circle"), 1U);
  EXPECT_EQ(count(draw(panel), "<polyline"), 1U);
  panel.lines[0].dots = true;  // each of the three then has one
  EXPECT_EQ(count(draw(panel), "<circle"), 3U);
}

TEST(Timelines, HaveABarForEachSpanAndASignForEachMoment) {
  const Timeline timeline{
      .title = "lives",
      .across_label = "seconds",
      .across = {0, 10},
      .rows = {{"0",
                {{0, 4, "first"}, {5, 8, "second"}, {8.5, 9, "third"}},
                {{4, "died"}, {8, "expelled", Sign::ring}, {9, "retired", Sign::bar}}},
               {"1", {}, {}}},
      .lines = {{5, "launch 2"}}};
  const std::string svg = draw(timeline, 400);
  EXPECT_EQ(count(svg, "<rect"), 3U);
  EXPECT_EQ(count(svg, "#8a98a8"), 2U);  // the tones by turns
  EXPECT_EQ(count(svg, "<circle"), 1U);
  EXPECT_EQ(count(svg, "<path"), 3U);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 1U);
  EXPECT_NE(svg.find("<title>launch 2</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>died</title>"), std::string::npos);
  EXPECT_GT(height_of(timeline), 2 * 12);
}

}  // namespace
}  // namespace archipelago::chart
