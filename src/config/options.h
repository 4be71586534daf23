#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/option_table.h"
#include "config/run_config.h"

namespace archipelago::config {

// Every field of `config` as an option "section.name", top-level ones first, and the options that
// single learners have instead as "learner.N.section.name". `config` must outlive the result.
std::vector<Option> run_options(RunConfig& config);

// Only the options of [model], for commands that take a model but no run.
std::vector<Option> model_options(Model& model);

// The options of `train`: command line over environment over INI files (--config) over defaults;
// with
// --resume and no --config, the run's own config.ini is the INI file. Throws Error(usage) for what
// is wrong on the command line, Error(configuration) for anything else, check() included.
RunConfig parse_run_config(std::span<const std::string> arguments);
// `more`: options beside those of a run, which are set too.
RunConfig parse_run_config(std::span<const std::string> arguments, const RunConfig& defaults,
                           std::span<const Option> more = {});

// The options that a section [learner.N] may hold.
std::vector<std::string> local_option_names();

// The configuration as `learner` has it, its own options in place; without sections of learners.
RunConfig for_learner(const RunConfig& config, int learner);

// Throws Error(configuration) naming all options that do not fit together, in one line.
void check(const RunConfig& config);

// config.ini: every option with its resolved value but for `resume`, which is of one start;
// parse_run_config({"--config", it}) gives the same RunConfig.
std::string write_ini(const RunConfig& config);

// "section.name" -> resolved value, for checkpoints; and back: `source` names the file in errors
// (Error(bad_data)). Names that are no option are passed over.
std::map<std::string, std::string> to_map(const RunConfig& config);
RunConfig from_map(const std::map<std::string, std::string>& values, const std::string& source);

}  // namespace archipelago::config
