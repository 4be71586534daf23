#include "simulate/experiment.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <sstream>
#include <thread>

#include "core/error.h"
#include "simulate/methods.h"

namespace archipelago::simulate {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

constexpr int kMostPoints = 100'000;

// Student's t for 95 %, by degrees of freedom from 1 on; 1.96 beyond the table.
constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
                               2.228,  2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
                               2.093,  2.086, 2.080, 2.074, 2.069, 2.064, 2.060};

Statistic statistic_of(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  Statistic statistic;
  for (const double value : values) statistic.mean += value / count;
  if (values.size() < 2) return statistic;
  double squares = 0;
  for (const double value : values) {
    squares += (value - statistic.mean) * (value - statistic.mean);
  }
  const std::size_t freedom = values.size() - 1;
  const double student = freedom <= std::size(kStudent) ? kStudent[freedom - 1] : 1.96;
  statistic.half_width = student * std::sqrt(squares / static_cast<double>(freedom) / count);
  return statistic;
}

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ExitCode::usage, "--sweep: " + problem);
}

double number_of(const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (text.empty() || used != text.size()) fail("'" + text + "' is no number");
  return value;
}

std::string text_of(double value) {
  std::ostringstream stream;
  stream.precision(12);
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    stream << static_cast<long long>(value);
  } else {
    stream << value;
  }
  return stream.str();
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<std::string> values_of(const std::string& text) {
  const std::vector<std::string> range = split(text, ':');
  if (range.size() == 1) return split(text, ',');
  if (range.size() != 3 || range[2].size() < 2 || (range[2][0] != 'x' && range[2][0] != '+')) {
    fail("'" + text + "' is neither a list nor first:last:xFACTOR nor first:last:+STEP");
  }
  const double last = number_of(range[1]);
  const double by = number_of(range[2].substr(1));
  const bool factor = range[2][0] == 'x';
  if (factor ? by <= 1 : by <= 0) fail("'" + text + "' does not come to an end");
  std::vector<std::string> values;
  const double tolerance = 1 + 1e-9;  // of the rounding on the way to `last`
  for (double value = number_of(range[0]); value <= last * tolerance;
       value = factor ? value * by : value + by) {
    values.push_back(text_of(value));
    if (values.size() > kMostPoints) fail("'" + text + "' has too many points");
  }
  return values;
}

std::string full_name(const Scenario& scenario, const std::string& name) {
  Scenario copy = scenario;
  std::vector<std::string> known;
  std::vector<std::string> matches;
  for (const config::Option& option : scenario_options(copy)) {
    known.push_back(option.name);
    if (option.name == name) return name;
    if (option.name.ends_with("." + name)) matches.push_back(option.name);
  }
  if (matches.size() == 1) return matches.front();
  if (matches.size() > 1) fail("'" + name + "' may be " + matches[0] + " or " + matches[1]);
  fail("there is no option '" + name + "'; did you mean '" + config::nearest(name, known) + "'?");
}

Scenario scenario_at(const Scenario& scenario, const Options& options) {
  Scenario copy = scenario;
  for (const config::Option& option : scenario_options(copy)) {
    for (const auto& [name, value] : options) {
      if (option.name != name) continue;
      try {
        option.set(value);
      } catch (const std::invalid_argument& problem) {
        fail(name + "=" + value + ": " + problem.what());
      }
    }
  }
  check(copy);
  return copy;
}

}  // namespace

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {
      {"goodput", "", "goodput", &Outcome::goodput},
      {"availability", "", "availability", &Outcome::availability},
      {"utilisation", "", "utilisation", &Outcome::utilisation},
      {"tokens_per_day", "tokens/day", "tokens/day", &Outcome::tokens_per_day},
      {"gbps", "Gbit/s a learner's link", "Gbit/s a learner's link", &Outcome::gbps},
      {"bytes", "bytes", "bytes", &Outcome::bytes},
      {"energy_per_token", "J/token", "J/token", &Outcome::energy_per_token},
      {"cost_per_token", "money/token", "money/token", &Outcome::cost_per_token},
      {"rounds", "", "rounds", &Outcome::rounds},
      {"contributors", "learners a merge", "learners a merge", &Outcome::contributors},
      {"staleness", "inner steps", "staleness, inner steps", &Outcome::staleness},
      {"spread", "(most - fewest) / mean contributions",
       "spread: (most - fewest) / mean contributions", &Outcome::spread},
      {"losses", "learners lost", "learners lost", &Outcome::losses},
  };
  return all;
}

std::vector<Options> sweep_points(const Scenario& scenario, const std::string& sweep) {
  std::vector<Options> points(1);
  for (const std::string& part : split(sweep, ';')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) fail("'" + part + "' is not option=values");
    const std::string name = full_name(scenario, part.substr(0, equals));
    const std::vector<std::string> values = values_of(part.substr(equals + 1));
    std::vector<Options> longer;
    for (const Options& point : points) {
      for (const std::string& value : values) {
        longer.push_back(point);
        longer.back().emplace_back(name, value);
      }
    }
    if (longer.empty()) fail("'" + part + "' has no values");
    if (longer.size() > kMostPoints) fail("too many points");
    points = std::move(longer);
  }
  return points;
}

std::vector<Point> run_experiment(const Scenario& scenario, const std::string& sweep, int threads,
                                  const std::function<void(int, int)>& progress) {
  struct Task {
    Scenario scenario;
    Method method;
    std::uint64_t seed;
    Outcome outcome;
  };
  std::vector<Task> tasks;
  const std::vector<Options> points = sweep_points(scenario, sweep);
  for (const Options& options : points) {
    const Scenario here = scenario_at(scenario, options);
    for (const Method method : methods_of(here)) {
      for (std::int64_t seed = 0; seed < here.seeds; ++seed) {
        tasks.push_back({here, method, static_cast<std::uint64_t>(here.seed + seed), {}});
      }
    }
  }
  std::atomic<std::size_t> next = 0;
  std::atomic<int> done = 0;
  std::mutex mutex;
  std::exception_ptr problem;
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) {
      try {
        tasks[i].outcome = simulate(tasks[i].scenario, tasks[i].method, tasks[i].seed);
      } catch (...) {
        const std::lock_guard lock(mutex);
        problem = std::current_exception();
        return;
      }
      const int count = ++done;
      if (!progress) continue;
      const std::lock_guard lock(mutex);
      progress(count, static_cast<int>(tasks.size()));
    }
  };
  std::vector<std::jthread> workers;
  for (int thread = 1; thread < threads; ++thread) workers.emplace_back(work);
  work();
  workers.clear();
  if (problem) std::rethrow_exception(problem);

  std::vector<Point> result;
  std::size_t task = 0;
  for (const Options& options : points) {
    Point& point = result.emplace_back(Point{options, {}});
    const Scenario here = scenario_at(scenario, options);
    for (const Method method : methods_of(here)) {
      Result& row = point.results.emplace_back(Result{method, {}, {}});
      const auto first = tasks.begin() + static_cast<std::ptrdiff_t>(task);
      const auto last = first + here.seeds;
      for (const Quantity& quantity : quantities()) {
        std::vector<double> values;
        for (auto it = first; it != last; ++it) values.push_back(it->outcome.*quantity.value);
        row.statistics.push_back(statistic_of(values));
      }
      row.contributions.resize(first->outcome.contributions.size());
      for (auto it = first; it != last; ++it) {
        for (std::size_t i = 0; i < row.contributions.size(); ++i) {
          row.contributions[i] += it->outcome.contributions[i] / static_cast<double>(here.seeds);
        }
      }
      task += static_cast<std::size_t>(here.seeds);
    }
  }
  return result;
}

}  // namespace archipelago::simulate
