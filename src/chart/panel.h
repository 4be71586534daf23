#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chart/number.h"

namespace archipelago::chart {

// Of a panel or a timeline's row, in SVG units; a panel's text is 12 of them high.
constexpr double kWidth = 380;
constexpr double kHeight = 250;

// Text as it may stand in HTML and SVG.
std::string escape(std::string_view text);

// The colour of line i: eight that can be told apart, over and over.
const char* colour(std::size_t i);

struct Point {
  double x;
  double y;               // not a number: the line is broken here
  double half_width = 0;  // of an interval that is drawn as a bar
};

struct Line {
  std::string label;  // shown where the pointer rests
  std::vector<Point> points;
  std::size_t colour;
  bool dots = false;
};

// Lines over one axis. What lies outside the vertical axis is drawn at its edge.
struct Panel {
  std::string title;
  std::string across_label;
  Axis across;
  Axis up;
  std::vector<double> across_ticks;
  std::vector<Line> lines;
};

// From the least to the largest x; logarithmic where that is more than `ratio` times as large.
Axis across_of(const std::vector<Line>& lines, double ratio);

// From 0 to the largest y with its interval, at least `least_high`; to 1 where all are 0.
Axis up_from_zero(const std::vector<Line>& lines, double least_high = 0);

// From the least y to that which only a twentieth of all exceed: what falls steeply at first and
// then slowly is seen where it is slow.
Axis up_settled(const std::vector<Line>& lines);

// SVG elements within kWidth times kHeight, the upper left corner at (0, 0).
std::string draw(const Panel& panel);

}  // namespace archipelago::chart
