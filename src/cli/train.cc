#include "runtime/train.h"

#include <iostream>

#include "cli/commands.h"
#include "config/options.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

constexpr char kHelp[] =
    "usage: archipelago train --config FILE --out FOLDER [options]\n\n"
    "Trains a model; one rank of an MPI job. Start it with `archipelago launch`, which finds "
    "mpirun's\n"
    "flags and the number of ranks, or under mpirun or sbatch: rank 0 is the syncer, then the "
    "standby\n"
    "syncers, then the ranks of each learner and spare island.\n"
    "Options also come from INI files and from the environment: --sync.outer_lr X,\n"
    "ARCHIPELAGO_SYNC_OUTER_LR=X, or 'outer_lr = X' below '[sync]'. The command line wins over "
    "the\n"
    "environment, the environment over INI files, INI files over the [defaults].\n\n";

config::RunConfig parse(std::span<const std::string> arguments) {
  config::RunConfig config = config::parse_run_config(arguments);
  if (config.out.empty()) throw Error(ExitCode::usage, "no run folder given; add --out FOLDER");
  if (config.data.path.empty()) {
    throw Error(ExitCode::usage,
                "no data given; add --data.path FILE (archipelago prepare makes one)");
  }
  return config;
}

}  // namespace

int run_train(std::span<const std::string> arguments) {
  if (wants_help(arguments)) {
    config::RunConfig defaults;
    std::cout << kHelp
              << config::help_text(config::run_options(defaults), config::ConfigFiles::allowed);
    return 0;
  }
  // Every rank reads the same options and fails alike; one of them says so.
  reports_errors = job_rank() == 0;
  const config::RunConfig config = parse(arguments);
  reports_errors = true;
  return runtime::train(config);
}

}  // namespace archipelago::cli
