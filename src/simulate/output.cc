#include "simulate/output.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace archipelago::simulate {
namespace {

using Json = nlohmann::ordered_json;

// Enough digits to compare runs by, few enough that no last bit of a sum shows.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  std::ostringstream stream;
  stream << std::setprecision(9) << value;
  return std::stod(stream.str());
}

double value_of(const Result& result, const char* name) {
  for (std::size_t i = 0; i < quantities().size(); ++i) {
    if (std::string_view(quantities()[i].name) == name) return result.statistics[i].mean;
  }
  return 0;
}

Json methods_json(const Point& point) {
  Json methods = Json::object();
  for (const Result& result : point.results) {
    Json& method = methods[name_of(result.method)];
    for (std::size_t i = 0; i < quantities().size(); ++i) {
      const std::string name = quantities()[i].name;
      method[name] = rounded(result.statistics[i].mean);
      method[name + "_ci"] = rounded(result.statistics[i].half_width);
    }
    method["contributions"] = Json::array();
    for (const double count : result.contributions) {
      method["contributions"].push_back(rounded(count));
    }
  }
  return methods;
}

std::string short_number(double value) {
  std::ostringstream stream;
  stream << std::setprecision(3) << value;
  return stream.str();
}

// ---- Chart
// -----------------------------------------------------------------------------------------

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 60;
constexpr double kTop = 20;
constexpr double kRight = 200;
constexpr double kBottom = 50;
constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#3a7d44", "#8f5aa8",
                                    "#c98b1b", "#4d4d4d", "#2ca6a4", "#a05030"};

struct Line {
  std::string label;
  std::vector<std::pair<double, double>> points;
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
      lines[place->second].points.emplace_back(x, value_of(result, "goodput"));
    }
  }
  return lines;
}

}  // namespace

std::string to_table(const std::vector<Point>& points) {
  std::ostringstream out;
  std::size_t label_width = 0;
  std::vector<std::string> labels;
  for (const Point& point : points) {
    std::string label;
    for (const auto& [name, value] : point.options) label += name + "=" + value + "  ";
    labels.push_back(label);
    label_width = std::max(label_width, label.size());
  }
  out << std::left << std::setw(static_cast<int>(label_width)) << "" << std::setw(18) << "method"
      << std::right << std::setw(16) << "goodput %" << std::setw(12) << "available %"
      << std::setw(11) << "compute %" << std::setw(13) << "tokens/day" << std::setw(10) << "Gbit/s"
      << std::setw(10) << "J/token" << std::setw(14) << "cost/1e9 tok" << std::setw(14)
      << "contributors" << std::setw(11) << "staleness" << std::setw(8) << "losses"
      << "\n";
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const Result& result : points[i].results) {
      std::ostringstream goodput;
      goodput << std::fixed << std::setprecision(2) << 100 * result.statistics[0].mean << " ± "
              << 100 * result.statistics[0].half_width;
      out << std::left << std::setw(static_cast<int>(label_width)) << labels[i] << std::setw(18)
          << name_of(result.method) << std::right << std::setw(17) << goodput.str() << std::fixed
          << std::setprecision(2) << std::setw(12) << 100 * value_of(result, "availability")
          << std::setw(11) << 100 * value_of(result, "utilisation") << std::setw(13)
          << short_number(value_of(result, "tokens_per_day")) << std::setw(10)
          << short_number(value_of(result, "gbps")) << std::setw(10)
          << short_number(value_of(result, "energy_per_token")) << std::setw(14)
          << short_number(1e9 * value_of(result, "cost_per_token")) << std::setw(14)
          << short_number(value_of(result, "contributors")) << std::setw(11)
          << short_number(value_of(result, "staleness")) << std::setw(8)
          << short_number(value_of(result, "losses")) << "\n";
    }
  }
  return out.str();
}

std::string to_json(const Scenario& scenario, const std::vector<Point>& points) {
  Scenario copy = scenario;
  Json json = {{"scenario", config::to_map(scenario_options(copy))},
               {"methods", methods_json(points.front())},
               {"points", Json::array()}};
  for (const Point& point : points) {
    Json options = Json::object();
    for (const auto& [name, value] : point.options) options[name] = value;
    json["points"].push_back({{"options", options}, {"methods", methods_json(point)}});
  }
  return json.dump(2);
}

std::string to_csv(const std::vector<Point>& points) {
  std::ostringstream out;
  out << std::setprecision(9);
  for (const auto& [name, value] : points.front().options) out << name << ",";
  out << "method";
  for (const Quantity& quantity : quantities())
    out << "," << quantity.name << "," << quantity.name << "_ci";
  out << "\n";
  for (const Point& point : points) {
    for (const Result& result : point.results) {
      for (const auto& [name, value] : point.options) out << value << ",";
      out << name_of(result.method);
      for (const Statistic& statistic : result.statistics) {
        out << "," << statistic.mean << "," << statistic.half_width;
      }
      out << "\n";
    }
  }
  return out.str();
}

std::string to_svg(const std::vector<Point>& points) {
  const std::vector<Line> lines = lines_of(points);
  double low = lines.front().points.front().first;
  double high = low;
  for (const Line& line : lines) {
    for (const auto& [x, y] : line.points) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  const bool logarithmic = low > 0 && high / low > 5;
  const auto at_x = [&](double x) {
    if (high == low) return kLeft + (kWidth - kLeft - kRight) / 2;
    const double share =
        logarithmic ? std::log(x / low) / std::log(high / low) : (x - low) / (high - low);
    return kLeft + share * (kWidth - kLeft - kRight);
  };
  const auto at_y = [](double y) { return kHeight - kBottom - y * (kHeight - kTop - kBottom); };
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\"" << kHeight
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n";
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double y = at_y(tenth / 10.0);
    out << "<line x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight << "\" y1=\"" << y << "\" y2=\""
        << y << "\" stroke=\"#ddd\"/><text x=\"" << kLeft - 8 << "\" y=\"" << y + 4
        << "\" text-anchor=\"end\">" << 10 * tenth << " %</text>\n";
  }
  for (const auto& [x, y] : lines.front().points) {
    if (!points.front().options.empty()) {
      out << "<text x=\"" << at_x(x) << "\" y=\"" << kHeight - kBottom + 18
          << "\" text-anchor=\"middle\">" << short_number(x) << "</text>\n";
    }
  }
  if (!points.front().options.empty()) {
    out << "<text x=\"" << (kLeft + kWidth - kRight) / 2 << "\" y=\"" << kHeight - 10
        << "\" text-anchor=\"middle\">" << points.front().options.front().first << "</text>\n";
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* colour = kColours[i % std::size(kColours)];
    out << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\" points=\"";
    for (const auto& [x, y] : lines[i].points) out << at_x(x) << "," << at_y(y) << " ";
    out << "\"/>\n";
    for (const auto& [x, y] : lines[i].points) {
      out << "<circle cx=\"" << at_x(x) << "\" cy=\"" << at_y(y) << "\" r=\"3\" fill=\"" << colour
          << "\"/>\n";
    }
    const double y = kTop + 18 * static_cast<double>(i) + 10;
    out << "<rect x=\"" << kWidth - kRight + 12 << "\" y=\"" << y - 9
        << "\" width=\"10\" height=\"10\" fill=\"" << colour << "\"/><text x=\""
        << kWidth - kRight + 28 << "\" y=\"" << y << "\">" << lines[i].label << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace archipelago::simulate
