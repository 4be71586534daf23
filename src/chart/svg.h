#pragma once

#include <string>
#include <string_view>

namespace archipelago::chart {

// Where a chart's plot lies within its width and height.
constexpr double kLeft = 62;
constexpr double kTop = 34;
constexpr double kRight = 14;
constexpr double kBottom = 42;
constexpr double kTickLine = 16;   // from the plot down to the text of its ticks
constexpr double kLabelLine = 32;  // and to the label of the axis

// `text` is escaped; `anchor` is start, middle or end.
std::string text_at(double x, double y, std::string_view anchor, std::string_view text);

std::string line_between(double x1, double y1, double x2, double y2, std::string_view stroke);

}  // namespace archipelago::chart
