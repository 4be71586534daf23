#include "runtime/train.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "baseline/train.h"
#include "cli/commands.h"
#include "cli/launch_plan.h"
#include "cli/launched_run.h"
#include "cli/train_arguments.h"
#include "config/options.h"
#include "core/error.h"
#include "data/dataset.h"
#include "runtime/chaos.h"
#include "runtime/dry_run.h"
#include "runtime/lifeline.h"
#include "runtime/refusal.h"
#include "runtime/roll_call.h"
#include "runtime/scratch_folder.h"

namespace archipelago::cli {
namespace {

// The launcher gives a job a folder of its own for what MPI shares between processes; on other
// hosts than the launcher's nobody has made it yet.
void make_shared_folder() {
  std::error_code error;  // MPI says better what it can't work with
  if (const auto folder = runtime::scratch_folder()) {
    std::filesystem::create_directories(*folder, error);
  }
}

// Every rank reads the same options and fails alike; one of them says so.
config::RunConfig read_options(std::span<const std::string> arguments) {
  try {
    return parse_train_arguments(arguments, {});
  } catch (const Error& error) {
    runtime::leave_refusal(job_rank(), static_cast<int>(error.code()));
    if (job_rank() != 0) {
      reports_errors = false;
      // mpirun may hang when several ranks end with an error: one on each host does for all.
      if (job_rank_on_host() != 0) std::_Exit(0);
      // mpirun ends all at the first rank that fails: that must be the one that speaks.
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    throw;
  }
}

}  // namespace

int run_dry(std::span<const std::string> arguments, std::span<const std::string> hosts) {
  config::RunConfig config = parse_for_hosts(hosts.size(), [&](const auto& defaults) {
    return config::parse_run_config(arguments, defaults);
  });
  require_address(config);
  runtime::require_targets(runtime::parse_chaos(config.chaos), config.sync.learners,
                           config.sync.ranks_per_learner);
  std::unique_ptr<data::Dataset> dataset;
  if (!config.data.path.empty()) {
    dataset = data::open_dataset(config.data.path, runtime::usual_kind(config.model));
    config.model = runtime::fit_model(config.model, *dataset, config.data.path);
  } else if (config.model.vocabulary == 0) {
    throw Error(ExitCode::usage, "a dry run needs --data.path FILE or --model.vocabulary N");
  }
  runtime::Setup setup = runtime::make_setup(config);
  if (dataset) runtime::take_note_of(setup, *dataset, config.data.path);
  std::cout << runtime::describe_run(setup, dataset.get()) << placement_text(config, hosts);
  return 0;
}

int run_train(std::span<const std::string> arguments) {
  if (wants_help(arguments)) {
    std::cout << train_help();
    return 0;
  }
  std::vector<std::string> passed(arguments.begin(), arguments.end());
  if (std::erase(passed, "--dry-run") > 0) return run_dry(passed, allocated_hosts());
  const bool is_guest = std::erase(passed, kGuestFlag) > 0;
  make_shared_folder();
  const config::RunConfig config = read_options(passed);
  if (is_guest) runtime::train_as_guest(config);
  runtime::stand_apart(config.out);
  runtime::answer_roll_call(config.out, job_rank());
  if (!config::has_syncer(config)) baseline::train(config);
  runtime::train(config);
}

}  // namespace archipelago::cli
