#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

#include "simulate/distributions.h"
#include "simulate/output.h"

namespace archipelago::simulate {
namespace {

constexpr int kColumns = 3;
constexpr double kWidth = 380;  // of a panel
constexpr double kHeight = 250;
constexpr double kLeft = 62;
constexpr double kTop = 34;
constexpr double kRight = 14;
constexpr double kBottom = 32;
constexpr double kLegendLine = 18;
constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#3a7d44", "#8f5aa8",
                                    "#c98b1b", "#4d4d4d", "#2ca6a4", "#a05030"};

struct Mark {
  double x;
  std::vector<Statistic> statistics;  // of quantities()
};

struct Line {
  std::string label;
  std::vector<Mark> marks;
};

std::vector<Line> lines_of(const std::vector<Point>& points) {
  std::map<std::string, std::size_t> places;
  std::vector<Line> lines;
  for (const Point& point : points) {
    for (const Result& result : point.results) {
      std::string label = name_of(result.method);
      for (std::size_t i = 1; i < point.options.size(); ++i) {
        label += " " + point.options[i].first + "=" + point.options[i].second;
      }
      const auto [place, fresh] = places.emplace(label, lines.size());
      if (fresh) lines.push_back({label, {}});
      const double x = point.options.empty() ? 0 : std::stod(point.options.front().second);
      lines[place->second].marks.push_back({x, result.statistics});
    }
  }
  return lines;
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  std::ostringstream out;
  out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">" << text
      << "</text>\n";
  return out.str();
}

struct Axis {
  double low;
  double high;
  bool logarithmic;

  // From 0 to 1.
  double share(double value) const {
    if (high == low) return 0.5;
    if (logarithmic) return portable_log(value / low) / portable_log(high / low);
    return (value - low) / (high - low);
  }
};

Axis horizontal_axis(const std::vector<Line>& lines) {
  Axis axis{lines.front().marks.front().x, lines.front().marks.front().x, false};
  for (const Line& line : lines) {
    for (const Mark& mark : line.marks) {
      axis.low = std::min(axis.low, mark.x);
      axis.high = std::max(axis.high, mark.x);
    }
  }
  axis.logarithmic = axis.low > 0 && axis.high / axis.low > 5;
  return axis;
}

// From 0 to the largest value; shares to 1.
Axis vertical_axis(const std::vector<Line>& lines, std::size_t quantity) {
  Axis axis{0, quantity < 3 ? 1.0 : 0.0, false};  // goodput, availability, utilisation
  for (const Line& line : lines) {
    for (const Mark& mark : line.marks) {
      const Statistic& value = mark.statistics[quantity];
      axis.high = std::max(axis.high, value.mean + value.half_width);
    }
  }
  if (axis.high == 0) axis.high = 1;
  return axis;
}

// One quantity, its upper left corner at (left, top).
std::string panel(const std::vector<Line>& lines, std::size_t quantity, const Axis& across,
                  double left, double top) {
  const Axis up = vertical_axis(lines, quantity);
  const auto at_x = [&](double x) {
    return left + kLeft + across.share(x) * (kWidth - kLeft - kRight);
  };
  const auto at_y = [&](double y) {
    return top + kHeight - kBottom - up.share(y) * (kHeight - kTop - kBottom);
  };
  const Quantity& shown = quantities()[quantity];
  std::ostringstream out;
  const std::string unit = *shown.unit == 0 ? "" : std::string(", ") + shown.unit;
  out << text_at(left + kLeft, top + kTop - 12, "start", shown.name + unit);
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double value = up.high * quarter / 4;
    out << "<line x1=\"" << left + kLeft << "\" x2=\"" << left + kWidth - kRight << "\" y1=\""
        << at_y(value) << "\" y2=\"" << at_y(value) << "\" stroke=\"#ddd\"/>\n"
        << text_at(left + kLeft - 6, at_y(value) + 4, "end", short_number(value));
  }
  if (across.high > across.low) {
    for (const Mark& mark : lines.front().marks) {
      out << text_at(at_x(mark.x), top + kHeight - kBottom + 16, "middle", short_number(mark.x));
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* colour = kColours[i % std::size(kColours)];
    out << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\" points=\"";
    for (const Mark& mark : lines[i].marks) {
      if (std::isnan(mark.statistics[quantity].mean)) continue;
      out << at_x(mark.x) << "," << at_y(mark.statistics[quantity].mean) << " ";
    }
    out << "\"/>\n";
    for (const Mark& mark : lines[i].marks) {
      const Statistic& value = mark.statistics[quantity];
      if (std::isnan(value.mean)) continue;
      out << "<circle cx=\"" << at_x(mark.x) << "\" cy=\"" << at_y(value.mean)
          << "\" r=\"3\" fill=\"" << colour << "\"/>\n";
      if (value.half_width == 0) continue;
      out << "<line x1=\"" << at_x(mark.x) << "\" x2=\"" << at_x(mark.x) << "\" y1=\""
          << at_y(std::max(value.mean - value.half_width, 0.0)) << "\" y2=\""
          << at_y(value.mean + value.half_width) << "\" stroke=\"" << colour << "\"/>\n";
    }
  }
  return out.str();
}

}  // namespace

std::string to_svg(const std::vector<Point>& points) {
  const std::vector<Line> lines = lines_of(points);
  const Axis across = horizontal_axis(lines);
  const std::size_t panels = quantities().size();
  const double legend = kLegendLine * static_cast<double>(lines.size() + 1);
  const double rows = static_cast<double>((panels + kColumns - 1) / kColumns);
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kColumns * kWidth << "\" height=\""
      << legend + rows * kHeight
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double y = kLegendLine * static_cast<double>(i + 1);
    out << "<rect x=\"12\" y=\"" << y - 9 << "\" width=\"10\" height=\"10\" fill=\""
        << kColours[i % std::size(kColours)] << "\"/>" << text_at(28, y, "start", lines[i].label);
  }
  if (!points.front().options.empty()) {
    out << text_at(kColumns * kWidth - kRight, kLegendLine, "end",
                   "across: " + points.front().options.front().first);
  }
  for (std::size_t i = 0; i < panels; ++i) {
    out << panel(lines, i, across, static_cast<double>(i % kColumns) * kWidth,
                 legend + static_cast<double>(i / kColumns) * kHeight);
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace archipelago::simulate
