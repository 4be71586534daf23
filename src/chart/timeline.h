#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "chart/number.h"

namespace archipelago::chart {

// From `begin` to `end` on the axis; `label` is shown where the pointer rests.
struct Span {
  double begin;
  double end;
  std::string label;
};

enum class Sign { cross, ring, bar };

struct Moment {
  double at;
  std::string label;
  Sign sign = Sign::cross;
};

struct TimelineRow {
  std::string name;
  std::vector<Span> spans;
  std::vector<Moment> moments;
};

// Rows of spans in two tones by turns over one axis.
struct Timeline {
  std::string title;
  std::string across_label;
  Axis across;
  std::vector<TimelineRow> rows;
  std::vector<Moment> lines = {};  // moments of all rows, as vertical lines
};

// SVG units; the width is `width`.
double height_of(const Timeline& timeline);

// SVG elements within `width` times height_of(), the upper left corner at (0, 0).
std::string draw(const Timeline& timeline, double width);

}  // namespace archipelago::chart
