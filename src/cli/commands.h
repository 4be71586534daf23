#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"

namespace archipelago::cli {

// The subcommands, one file each. `arguments` are those after the subcommand's name. Each returns
// the exit code (docs/design.md, "Exit codes") or throws Error, which main() prints as one line.
int run_train(std::span<const std::string> arguments);
// `train --dry-run` on these hosts (empty: on this one): what the run would need. Data and folder
// may be missing.
int run_dry(std::span<const std::string> arguments, std::span<const std::string> hosts);
int run_join(std::span<const std::string> arguments);
int run_launch(std::span<const std::string> arguments);
int run_evaluate(std::span<const std::string> arguments);
int run_sample(std::span<const std::string> arguments);
int run_inspect(std::span<const std::string> arguments);
int run_export(std::span<const std::string> arguments);
int run_import(std::span<const std::string> arguments);
int run_prepare(std::span<const std::string> arguments);
int run_simulate(std::span<const std::string> arguments);
int run_emulate(std::span<const std::string> arguments);
int run_scale(std::span<const std::string> arguments);
int run_replay(std::span<const std::string> arguments);
int run_watch(std::span<const std::string> arguments);
int run_report(std::span<const std::string> arguments);

// How a subcommand is called.
struct Usage {
  std::string_view synopsis;        // "archipelago inspect CHECKPOINT [options]"
  std::string_view description;     // one or a few lines
  std::size_t positional = 0;       // arguments without a name: at least so many ...
  std::size_t most_positional = 0;  // ... and at most so many
};

// Prints `usage` and the options, and returns nothing, where `arguments` ask for --help. Else sets
// `options` from them and returns the positional arguments. Throws Error(usage) for anything wrong.
std::optional<std::vector<std::string>> read_arguments(const Usage& usage,
                                                       std::span<const config::Option> options,
                                                       std::span<const std::string> arguments);

// Throws Error(configuration) where writing `target` would destroy something: a file that exists
// already (unless `force`), one of `inputs` under whatever name, or what is no regular file.
void require_new_file(const std::filesystem::path& target, bool force,
                      std::span<const std::filesystem::path> inputs);

// Whether --help or -h stands among the arguments (before a lone "--").
bool wants_help(std::span<const std::string> arguments);

// This process's rank in the job that mpirun started, before MPI_Init; 0 outside a job.
int job_rank();
// The same among those on this host.
int job_rank_on_host();

// "archipelago 0.1.0 (git hash)" and a line for each library.
std::string version_text();

}  // namespace archipelago::cli
