#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "cli/commands.h"
#include "core/error.h"
#include "core/file.h"
#include "simulate/bandwidth.h"
#include "simulate/calibrate.h"
#include "simulate/experiment.h"
#include "simulate/optimize.h"
#include "simulate/output.h"
#include "simulate/scenario.h"

namespace archipelago::cli {
namespace {

constexpr std::string_view kUsage =
    "usage: archipelago simulate [--config FILE] [options]\n"
    "       archipelago simulate --from RUN [--json]\n\n"
    "Runs the decisions of a real run in virtual time over a cluster of any size: goodput,\n"
    "bandwidth and cost of each method (docs/simulator.md). inputs/simulate/ holds examples.\n\n";

struct Arguments {
  simulate::Scenario scenario;
  std::string sweep;
  std::string table = "goodput";
  std::string utilisations = "0.5,0.8,0.9,0.95,0.99";
  std::string from;
  std::string csv;
  std::string chart;
  bool optimize = false;
  double budget = 0;
  simulate::LearningCost learning;
  bool json = false;
  std::int64_t threads = std::max(1U, std::thread::hardware_concurrency());
};

std::vector<config::Option> options_of(Arguments& a) {
  std::vector<config::Option> options = {
      config::verbatim_text("sweep", a.sweep, "POINTS", "e.g. chips=150e3:2.4e6:x2;learners=1,8"),
      config::choice("table", a.table, {"goodput", "bandwidth"},
                     "what to find: goodput, or the bandwidth that each utilisation needs"),
      config::verbatim_text("utilisations", a.utilisations, "LIST",
                            "columns of the bandwidth table"),
      config::verbatim_text("from", a.from, "RUN",
                            "predict a real run from its event tape; of a resumed one, its last "
                            "launch"),
      config::flag("optimize", a.optimize, "search the best M, H, P, K, tau and encoding"),
      config::real("budget", a.budget, 0, config::kNoLimit,
                   "money, for --optimize: how many tokens it trains"),
      config::real("learning.doubling", a.learning.doubling, 0, 1,
                   "tokens that a doubling of the learners costs, for --optimize"),
      config::real("learning.staleness", a.learning.staleness, 0, 1,
                   "and one of the steps in a contribution beyond 24"),
      config::real("learning.four_bits", a.learning.four_bits, 0, 1, "and 4 bits on the wire"),
      config::flag("json", a.json, "print one JSON object"),
      config::verbatim_text("csv", a.csv, "FILE", "also write the table as CSV"),
      config::verbatim_text("chart", a.chart, "FILE.svg",
                            "also draw every quantity over the first swept option"),
      config::integer("threads", a.threads, 1, 1024, "runs at the same time"),
  };
  for (config::Option& option : simulate::scenario_options(a.scenario)) {
    options.push_back(std::move(option));
  }
  return options;
}

// A real run is predicted from its own settings.
void require_only_from(std::span<const std::string> given) {
  for (const std::string& argument : given) {
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || name == "--from" || name == "--json") continue;
    throw Error(ExitCode::usage, name +
                                     " does nothing beside --from, which takes the run's own "
                                     "settings; leave one of the two out");
  }
}

void read(std::span<const std::string> given, Arguments& arguments) {
  Arguments first;
  const auto files =
      config::read_command_line(options_of(first), given, config::ConfigFiles::allowed);
  if (!files.positional.empty()) {
    throw Error(ExitCode::usage, "unexpected argument '" + files.positional.front() + "'");
  }
  if (!first.from.empty()) require_only_from(given);
  const auto options = options_of(arguments);
  for (const auto& file : files.config_files) config::read_ini_file(options, file);
  config::read_command_line(options, given, config::ConfigFiles::allowed);
}

void show_progress(int done, int all) {
  constexpr int kWidth = 40;
  const int filled = kWidth * done / all;
  std::cerr << "\r[" << std::string(filled, '#') << std::string(kWidth - filled, '.') << "] "
            << done << "/" << all << (done == all ? "\n" : "") << std::flush;
}

void show_candidate(const simulate::Candidate& best) {
  const auto& scenario = best.scenario;
  std::cerr << "M " << scenario.sync.learners << ", H " << scenario.sync.interval << ", P "
            << scenario.sync.fragments << ", K " << scenario.sync.quorum << ", tau "
            << scenario.sync.overlap << ", " << scenario.model.bits << " bits: " << 100 * best.value
            << " %\n";
}

int predict_run(const Arguments& arguments) {
  const simulate::ObservedRun observed = simulate::observe_run(arguments.from);
  const simulate::RunOutcome predicted = simulate::run_again(observed.recorded);
  std::cout << (arguments.json ? simulate::comparison_json(observed, predicted) + "\n"
                               : simulate::comparison_text(observed, predicted));
  return 0;
}

int recommend(const Arguments& arguments) {
  std::function<void(const simulate::Candidate&)> progress;
  if (isatty(STDERR_FILENO) != 0) progress = show_candidate;
  const auto recommendation = simulate::optimize(arguments.scenario, arguments.learning,
                                                 static_cast<int>(arguments.threads), progress);
  std::cout << (arguments.json
                    ? simulate::recommendation_json(recommendation, arguments.budget) + "\n"
                    : simulate::recommendation_text(recommendation, arguments.budget));
  return 0;
}

int find_bandwidth(const Arguments& arguments) {
  const auto wanted = simulate::utilisations_of(arguments.utilisations);
  const auto rows = simulate::bandwidth_table(arguments.scenario, wanted);
  std::cout << (arguments.json ? simulate::bandwidth_json(rows, wanted) + "\n"
                               : simulate::bandwidth_text(rows, wanted));
  return 0;
}

}  // namespace

int run_simulate(std::span<const std::string> given) {
  Arguments arguments;
  if (wants_help(given)) {
    std::cout << kUsage << config::help_text(options_of(arguments), config::ConfigFiles::allowed);
    return 0;
  }
  read(given, arguments);
  if (!arguments.from.empty()) return predict_run(arguments);
  simulate::check(arguments.scenario);
  if (arguments.optimize) return recommend(arguments);
  if (arguments.table == "bandwidth") return find_bandwidth(arguments);
  for (const std::string& file : {arguments.csv, arguments.chart}) {
    if (!file.empty()) require_new_file(file, true, {});
  }
  std::function<void(int, int)> progress;
  if (isatty(STDERR_FILENO) != 0) progress = show_progress;
  const auto points = simulate::run_experiment(arguments.scenario, arguments.sweep,
                                               static_cast<int>(arguments.threads), progress);
  if (!arguments.csv.empty()) {
    write_file(arguments.csv, simulate::to_csv(points), Durability::unflushed);
  }
  if (!arguments.chart.empty()) {
    write_file(arguments.chart, simulate::to_svg(points), Durability::unflushed);
  }
  std::cout << (arguments.json ? simulate::to_json(arguments.scenario, points) + "\n"
                               : simulate::to_table(points));
  return 0;
}

}  // namespace archipelago::cli
