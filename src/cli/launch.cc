#include <netdb.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/commands.h"
#include "cli/launch_plan.h"
#include "cli/launched_run.h"
#include "cli/train_arguments.h"
#include "config/options.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage{
    "archipelago launch [options] -- TRAIN-OPTIONS",
    "Starts `archipelago train TRAIN-OPTIONS` as an MPI job: counts its ranks, gives mpirun the "
    "right\n"
    "flags, waits for the end, cleans up and returns the run's own exit code. SIGTERM, SIGUSR1 or\n"
    "Ctrl-C: the run writes its checkpoints and ends with 75; a second Ctrl-C ends it at once."};

struct LaunchOptions {
  int learners = 0;
  int ranks_per_learner = 0;
  int syncers = 0;
  std::vector<std::string> hosts;
  LaunchRules rules;
  bool print = false;
  bool json = false;
};

std::string joined(const std::vector<std::string>& words, char separator) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : std::string(1, separator)) + word;
  return text;
}

config::Option hosts_option(std::vector<std::string>& hosts) {
  return {.name = "hosts",
          .argument = "H1,H2",
          .help = "hosts to use; none: this one, or Slurm's",
          .default_value = "",
          .set =
              [&hosts](const std::string& text) {
                hosts.clear();
                std::istringstream stream(text + ',');
                for (std::string name; std::getline(stream, name, ',');) {
                  if (name.find_first_not_of(' ') == name.npos) {
                    throw std::invalid_argument("the name of a host is empty");
                  }
                  hosts.push_back(name);
                }
              },
          .get = [&hosts] { return joined(hosts, ','); }};
}

std::vector<config::Option> options_of(LaunchOptions& o) {
  return {
      config::integer("learners", o.learners, 0, 4096, "learners; 0: sync.learners"),
      config::integer("ranks-per-learner", o.ranks_per_learner, 0, 4096,
                      "ranks of an island; 0: sync.ranks_per_learner"),
      config::integer("syncers", o.syncers, 0, 64, "syncers; 0: sync.syncers"),
      hosts_option(o.hosts),
      config::integer(
          "restarts", o.rules.restarts, 0, 1'000'000,
          "start a run that failed as a whole again, so often without a new checkpoint"),
      config::real("start-seconds", o.rules.start_seconds, 1, 1e6,
                   "how long a rank may give no sign of life while the job starts"),
      config::integer("stop-code", o.rules.stop_code, 0, 255,
                      "exit code where the file `stop` in the run's folder ended the run"),
      config::flag("print", o.print, "print the command instead of running it"),
      config::flag("json", o.json, "with --print: as one JSON object"),
  };
}

// mpirun's own words would be about daemons.
void require_known(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
    if (error != 0) {
      throw Error(ExitCode::usage, "--hosts: no address is known of the host '" + host + "' (" +
                                       ::gai_strerror(error) + ')');
    }
    ::freeaddrinfo(found);
  }
}

// train's, with what the launcher's own options say in their place.
std::vector<std::string> train_arguments(const LaunchOptions& options,
                                         std::vector<std::string> arguments) {
  const auto pass = [&](const char* name, int value) {
    if (value > 0) arguments.push_back("--" + std::string(name) + '=' + std::to_string(value));
  };
  pass("sync.learners", options.learners);
  pass("sync.ranks_per_learner", options.ranks_per_learner);
  pass("sync.syncers", options.syncers);
  return arguments;
}

void print_plan(const LaunchPlan& plan, bool json) {
  std::cout << (json
                    ? to_json(plan).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                          '\n'
                    : to_shell(plan));
}

}  // namespace

int run_launch(std::span<const std::string> arguments) {
  const auto separator = std::ranges::find(arguments, "--");
  const std::vector<std::string> own(arguments.begin(), separator);
  std::vector<std::string> passed;
  if (separator != arguments.end()) passed.assign(separator + 1, arguments.end());

  LaunchOptions options;
  require_separator(own, separator != arguments.end(), kUsage.synopsis);
  if (!read_arguments(kUsage, options_of(options), own)) return 0;
  const auto hosts = options.hosts.empty() ? allocated_hosts() : options.hosts;
  const bool dry = std::erase(passed, "--dry-run") > 0;
  passed = train_arguments(options, std::move(passed));
  if (dry) return run_dry(passed, hosts);
  const config::RunConfig config = parse_for_hosts(
      hosts.size(), [&](const auto& defaults) { return parse_train_arguments(passed, defaults); });
  if (options.print) {
    print_plan(plan_of(config, hosts), options.json);
    return 0;
  }
  require_known(options.hosts);
  return run_with_restarts(config, hosts, options.rules);
}

}  // namespace archipelago::cli
