#include "cli/train_arguments.h"

#include <algorithm>
#include <filesystem>

#include "config/options.h"
#include "core/error.h"
#include "runtime/guest_door.h"
#include "runtime/run_folder.h"

namespace archipelago::cli {
namespace {

std::string local_names() {
  std::string line;
  for (const std::string& name : config::local_option_names()) {
    line += (line.empty() ? "" : ", ") + name;
  }
  return line;
}

// So that the run can be resumed, and its checkpoints evaluated, from any folder.
std::string from_the_root(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

std::string train_help() {
  config::RunConfig defaults;
  return "usage: archipelago train --config FILE --out FOLDER [options]\n\n"
         "Trains a model; one rank of an MPI job. `archipelago launch` starts such a job; by hand "
         "it is\n"
         "mpirun --with-ft ulfm ... archipelago train ..., with the ranks in this order: the "
         "syncer,\n"
         "its standbys, then the ranks of each learner's and each spare's island.\n\n"
         "--dry-run, without mpirun: print parameters, memory, room for checkpoints,\n"
         "what is to be exchanged and which rank plays what, and end.\n\n"
         "Every option can also stand in an INI file (outer_lr = X below [sync]) or in the "
         "environment\n"
         "(ARCHIPELAGO_SYNC_OUTER_LR=X). The command line wins over the environment, that over "
         "INI\n"
         "files, those over the defaults in [brackets].\n\n"
         "A section [learner.2] with a line train.batch = 8, or --learner.2.train.batch 8, is for "
         "learner 2\n"
         "alone (they are numbered from 0); so may be: " +
         local_names() + ".\n\n" +
         config::help_text(config::run_options(defaults), config::ConfigFiles::allowed);
}

void require_separator(std::span<const std::string> own, bool has_separator,
                       std::string_view synopsis) {
  if (has_separator) return;
  config::RunConfig run;
  const auto train_options = config::run_options(run);
  for (const std::string& argument : own) {
    const std::string name = argument.substr(0, argument.find('='));
    const auto is_named = [&](const config::Option& option) { return "--" + option.name == name; };
    if (name == "--config" || std::ranges::any_of(train_options, is_named)) {
      throw Error(
          ExitCode::usage,
          name + " is an option of train: put it behind a lone --, as in " + std::string(synopsis));
    }
  }
}

void require_address(const config::RunConfig& config) {
  if (!config.sync.listen.empty()) runtime::address_to_listen(config.sync.listen);
}

config::RunConfig parse_train_arguments(std::span<const std::string> arguments,
                                        const config::RunConfig& defaults,
                                        std::span<const config::Option> more) {
  config::RunConfig config = config::parse_run_config(arguments, defaults, more);
  if (config.out.empty()) throw Error(ExitCode::usage, "no run folder given; add --out FOLDER");
  require_address(config);
  if (config.data.path.empty() && config.resume &&
      !std::filesystem::exists(runtime::RunFolder(config.out).config())) {
    throw Error(ExitCode::configuration,
                "--out " + config.out +
                    ": there is no config.ini and so no run to resume; name the folder where the "
                    "run is now, or begin one by adding --data.path FILE");
  }
  if (config.data.path.empty()) {
    throw Error(ExitCode::usage,
                "no data given; add --data.path FILE (archipelago prepare makes one)");
  }
  config.data.path = from_the_root(config.data.path);
  for (auto& [learner, options] : config.learners) {
    const auto path = options.find("data.path");
    if (path != options.end()) path->second = from_the_root(path->second);
  }
  return config;
}

config::RunConfig parse_for_hosts(
    std::size_t hosts, const std::function<config::RunConfig(const config::RunConfig&)>& parse) {
  config::RunConfig defaults;
  const config::RunConfig config = parse(defaults);
  if (hosts < 2 || config.sync.syncers > 1 || !config::has_syncer(config)) return config;
  // Across hosts a crash inside MPI can take the syncer along with a dying learner.
  defaults.sync.standby = 1;
  return parse(defaults);
}

}  // namespace archipelago::cli
