#pragma once

#include <string>
#include <vector>

#include "simulate/experiment.h"

namespace archipelago::simulate {

// For the terminal. One point: every quantity with its interval, a column for each method. Several:
// a row for each point and method with the main quantities.
std::string to_table(const std::vector<Point>& points);

// One object: {"scenario": {option: value, ...}, "methods": {...of the first point...}, "points":
// [{"options": {...}, "methods": {"decoupled": {"goodput": x, "goodput_ci": half width, ...}}}]}.
std::string to_json(const Scenario& scenario, const std::vector<Point>& points);

// One line for each point and method: the swept options, the method, each quantity and its _ci.
std::string to_csv(const std::vector<Point>& points);

// A self-contained SVG (chart.cc): a panel for each quantity over the first swept option, with a
// line for each method and combination of the other options, and bars for the intervals.
std::string to_svg(const std::vector<Point>& points);

}  // namespace archipelago::simulate
