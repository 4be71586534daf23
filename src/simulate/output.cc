#include "simulate/output.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "chart/number.h"

namespace archipelago::simulate {
namespace {

using Json = nlohmann::ordered_json;

// Enough digits to compare runs by, few enough that no last bit of a sum shows.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0.0;
  std::ostringstream stream;
  stream << std::setprecision(9) << value;
  return std::strtod(stream.str().c_str(), nullptr);
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

// A value with so many digits that its interval is still seen.
std::string with_interval(const Statistic& statistic) {
  if (std::isnan(statistic.mean)) return "-";
  std::ostringstream out;
  out << std::setprecision(5) << statistic.mean << " ± " << std::setprecision(2)
      << statistic.half_width;
  return out.str();
}

std::string point_table(const Point& point) {
  constexpr int kColumn = 24;
  std::size_t names = 0;
  for (const Quantity& quantity : quantities()) {
    names = std::max(names, std::string(quantity.name).size() + std::string(quantity.unit).size());
  }
  const int left = static_cast<int>(names) + 4;
  std::ostringstream out;
  out << std::setw(left) << "";
  for (const Result& result : point.results) out << std::setw(kColumn) << name_of(result.method);
  out << "\n";
  for (std::size_t i = 0; i < quantities().size(); ++i) {
    const Quantity& quantity = quantities()[i];
    const std::string unit = *quantity.unit == 0 ? "" : std::string(", ") + quantity.unit;
    out << std::left << std::setw(left) << quantity.name + unit << std::right;
    for (const Result& result : point.results) {
      const std::string text = with_interval(result.statistics[i]);
      // One more: the sign of the interval is two bytes.
      out << std::setw(text == "-" ? kColumn : kColumn + 1) << text;
    }
    out << "\n";
  }
  return out.str();
}

std::string sweep_table(const std::vector<Point>& points) {
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
      << "contributors" << std::setw(11) << "staleness" << std::setw(8) << "spread" << std::setw(8)
      << "losses"
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
          << chart::short_number(value_of(result, "tokens_per_day")) << std::setw(10)
          << chart::short_number(value_of(result, "gbps")) << std::setw(10)
          << chart::short_number(value_of(result, "energy_per_token")) << std::setw(14)
          << chart::short_number(1e9 * value_of(result, "cost_per_token")) << std::setw(14)
          << chart::short_number(value_of(result, "contributors")) << std::setw(11)
          << chart::short_number(value_of(result, "staleness")) << std::setw(8)
          << chart::short_number(value_of(result, "spread")) << std::setw(8)
          << chart::short_number(value_of(result, "losses")) << "\n";
    }
  }
  return out.str();
}

}  // namespace

std::string to_table(const std::vector<Point>& points) {
  return points.size() == 1 ? point_table(points.front()) : sweep_table(points);
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
        if (std::isnan(statistic.mean)) {
          out << ",,";
        } else {
          out << "," << statistic.mean << "," << statistic.half_width;
        }
      }
      out << "\n";
    }
  }
  return out.str();
}

}  // namespace archipelago::simulate
