#include "emulate/emulate.h"

#include <iostream>

#include "cli/commands.h"
#include "cli/train_arguments.h"
#include "config/options.h"

namespace archipelago::cli {

int run_emulate(std::span<const std::string> arguments) {
  emulate::Conditions conditions;
  const auto options = emulate::options_of(conditions);
  if (wants_help(arguments)) {
    config::RunConfig defaults;
    std::cout << "usage: archipelago emulate --config FILE --out FOLDER [options]\n\n"
                 "A run of `train` in one process and in virtual time: the same result every time "
                 "(docs/emulation.md).\n\n"
              << config::help_text(options, config::ConfigFiles::allowed)
              << "\nAnd the options of train (archipelago train --help).\n";
    return 0;
  }
  const config::RunConfig config = parse_train_arguments(arguments, {}, options);
  return emulate::emulate(config, conditions);
}

}  // namespace archipelago::cli
