#include <cstdlib>
#include <map>
#include <sstream>

#include "chart/panel.h"
#include "chart/svg.h"
#include "simulate/output.h"

namespace archipelago::simulate {
namespace {

constexpr int kColumns = 3;
constexpr double kLegendLine = 18;
constexpr double kLogarithmic = 5;  // ratio of the ends from which on an axis is

struct Mark {
  double x;
  std::vector<Statistic> statistics;  // of quantities()
};

struct Row {
  std::string label;
  std::vector<Mark> marks;
};

std::vector<Row> rows_of(const std::vector<Point>& points) {
  std::map<std::string, std::size_t> places;
  std::vector<Row> rows;
  for (const Point& point : points) {
    for (const Result& result : point.results) {
      std::string label = name_of(result.method);
      for (std::size_t i = 1; i < point.options.size(); ++i) {
        label += " " + point.options[i].first + "=" + point.options[i].second;
      }
      const auto [place, fresh] = places.emplace(label, rows.size());
      if (fresh) rows.push_back({label, {}});
      const double x =
          point.options.empty() ? 0 : std::strtod(point.options.front().second.c_str(), nullptr);
      rows[place->second].marks.push_back({x, result.statistics});
    }
  }
  return rows;
}

chart::Panel panel_of(const std::vector<Row>& rows, std::size_t quantity) {
  const Quantity& shown = quantities()[quantity];
  chart::Panel panel;
  panel.title = shown.title;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    chart::Line line{rows[i].label, {}, i, true};
    for (const Mark& mark : rows[i].marks) {
      const Statistic& value = mark.statistics[quantity];
      line.points.push_back({mark.x, value.mean, value.half_width});
    }
    panel.lines.push_back(std::move(line));
  }
  panel.across = chart::across_of(panel.lines, kLogarithmic);
  const bool share = quantity < 3;  // goodput, availability, utilisation
  panel.up = chart::up_from_zero(panel.lines, share ? 1 : 0);
  if (panel.across.high > panel.across.low) {
    for (const Mark& mark : rows.front().marks) panel.across_ticks.push_back(mark.x);
  }
  return panel;
}

}  // namespace

std::string to_svg(const std::vector<Point>& points) {
  const std::vector<Row> rows = rows_of(points);
  const std::size_t panels = quantities().size();
  const double legend = kLegendLine * static_cast<double>(rows.size() + 1);
  const double lines = static_cast<double>((panels + kColumns - 1) / kColumns);
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kColumns * chart::kWidth
      << "\" height=\"" << legend + lines * chart::kHeight
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = kLegendLine * static_cast<double>(i + 1);
    out << "<rect x=\"12\" y=\"" << y - 9 << "\" width=\"10\" height=\"10\" fill=\""
        << chart::colour(i) << "\"/>" << chart::text_at(28, y, "start", rows[i].label);
  }
  if (!points.front().options.empty()) {
    out << chart::text_at(kColumns * chart::kWidth - chart::kRight, kLegendLine, "end",
                          "across: " + points.front().options.front().first);
  }
  for (std::size_t i = 0; i < panels; ++i) {
    out << "<g transform=\"translate(" << static_cast<double>(i % kColumns) * chart::kWidth << ","
        << legend + static_cast<double>(i / kColumns) * chart::kHeight << ")\">\n"
        << chart::draw(panel_of(rows, i)) << "</g>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace archipelago::simulate
