#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "simulate/outcome.h"
#include "simulate/scenario.h"

namespace archipelago::simulate {

// A quantity of an Outcome as it is printed, and its title in a chart, with the unit in it.
struct Quantity {
  const char* name;
  const char* unit;
  const char* title;
  double Outcome::*value;
};
const std::vector<Quantity>& quantities();

// Over the seeds: the mean, and half the width of its 95 % confidence interval (Student's t; 0 for
// one seed).
struct Statistic {
  double mean = 0;
  double half_width = 0;
};

struct Result {
  Method method;
  std::vector<Statistic> statistics;  // of quantities(), in order
  std::vector<double> contributions;  // by learner, mean over the seeds
};

// One point of a sweep: the options that differ from the scenario's, and each method's result
// there.
struct Point {
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<Result> results;
};

// The points of "chips=150e3:2.4e6:x2;learners=1,8": options by name or by its last part, values as
// a list or as first:last:xFACTOR or first:last:+STEP; several options make all combinations.
// Empty: the scenario alone. Throws Error(usage).
std::vector<std::vector<std::pair<std::string, std::string>>> sweep_points(
    const Scenario& scenario, const std::string& sweep);

// Runs every method of the scenario with every seed at every point, on so many threads; the result
// does not depend on their number. `progress`, where there is one, is told runs done and runs in
// all.
std::vector<Point> run_experiment(const Scenario& scenario, const std::string& sweep, int threads,
                                  const std::function<void(int, int)>& progress = {});

}  // namespace archipelago::simulate
