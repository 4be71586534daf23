#include "chart/panel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <sstream>

#include "chart/svg.h"

namespace archipelago::chart {
namespace {

constexpr int kUpTicks = 5;

// Where values lie in the panel.
struct Place {
  const Panel& panel;

  double x(double value) const {
    return kLeft + panel.across.share(value) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double share = std::clamp(panel.up.share(value), 0.0, 1.0);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

std::string frame(const Panel& panel, const Place& place) {
  std::string out = text_at(kLeft, kTop - 12, "start", panel.title);
  for (const double value : panel.up.ticks(kUpTicks)) {
    out += line_between(kLeft, place.y(value), kWidth - kRight, place.y(value), "#ddd");
    out += text_at(kLeft - 6, place.y(value) + 4, "end", tick_label(value));
  }
  for (const double value : panel.across_ticks) {
    out += text_at(place.x(value), kHeight - kBottom + kTickLine, "middle", tick_label(value));
  }
  if (!panel.across_label.empty()) {
    out += text_at((kLeft + kWidth - kRight) / 2, kHeight - kBottom + kLabelLine, "middle",
                   panel.across_label);
  }
  return out;
}

std::string dot(const Point& point, const Place& place, const char* colour) {
  std::ostringstream out;
  out << "<circle cx=\"" << place.x(point.x) << "\" cy=\"" << place.y(point.y)
      << "\" r=\"3\" fill=\"" << colour << "\"/>\n";
  if (point.half_width == 0) return out.str();
  out << line_between(place.x(point.x), place.y(point.y - point.half_width), place.x(point.x),
                      place.y(point.y + point.half_width), colour);
  return out.str();
}

// The points between those that are no numbers: a stroke, or a dot where there is but one.
std::string stretch(std::span<const Point> points, const Line& line, const Place& place) {
  if (points.empty()) return "";
  if (points.size() == 1) return line.dots ? "" : dot(points.front(), place, colour(line.colour));
  std::ostringstream out;
  out << "<polyline points=\"";
  for (const Point& point : points) out << place.x(point.x) << "," << place.y(point.y) << " ";
  out << "\"/>\n";
  return out.str();
}

std::string strokes(const Line& line, const Place& place) {
  std::string out;
  auto begin = line.points.begin();
  while (begin != line.points.end()) {
    const auto end = std::find_if(begin, line.points.end(),
                                  [](const Point& point) { return std::isnan(point.y); });
    out += stretch({begin, end}, line, place);
    begin = end == line.points.end() ? end : end + 1;
  }
  return out;
}

std::string draw_line(const Line& line, const Place& place) {
  const char* const stroke = colour(line.colour);
  std::ostringstream out;
  out << "<g fill=\"none\" stroke-width=\"1.5\" stroke=\"" << stroke << "\"><title>"
      << escape(line.label) << "</title>\n"
      << strokes(line, place) << "</g>\n";
  for (const Point& point : line.points) {
    if (line.dots && !std::isnan(point.y)) out << dot(point, place, stroke);
  }
  return out.str();
}

}  // namespace

Axis across_of(const std::vector<Line>& lines, double ratio) {
  Axis axis{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      axis.low = std::min(axis.low, point.x);
      axis.high = std::max(axis.high, point.x);
    }
  }
  if (axis.low > axis.high) return {0, 1};
  axis.logarithmic = axis.low > 0 && axis.high / axis.low > ratio;
  return axis;
}

Axis up_from_zero(const std::vector<Line>& lines, double least_high) {
  Axis axis{0, least_high};
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      if (!std::isnan(point.y)) axis.high = std::max(axis.high, point.y + point.half_width);
    }
  }
  if (axis.high == 0) axis.high = 1;
  return axis;
}

Axis up_settled(const std::vector<Line>& lines) {
  std::vector<double> values;
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      if (!std::isnan(point.y)) values.push_back(point.y);
    }
  }
  if (values.empty()) return {0, 1};
  std::ranges::sort(values);
  return {values.front(), values[values.size() - 1 - values.size() / 20]};
}

std::string draw(const Panel& panel) {
  const Place place{panel};
  std::string out = frame(panel, place);
  for (const Line& line : panel.lines) out += draw_line(line, place);
  return out;
}

}  // namespace archipelago::chart
