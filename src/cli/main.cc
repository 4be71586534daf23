#include <signal.h>

#include <algorithm>
#include <iostream>
#include <new>
#include <system_error>

#include "cli/commands.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

struct Command {
  std::string name;
  std::string summary;
  int (*run)(std::span<const std::string> arguments);
};

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
#define ARCHIPELAGO_COMMAND(name, summary) {#name, summary, run_##name},
#include "cli/command_table.inc"
#undef ARCHIPELAGO_COMMAND
  };
  return table;
}

std::string overall_help() {
  std::string text =
      "usage: archipelago COMMAND [arguments]\n\n"
      "Trains one model on many independent islands of compute that fail, straggle, join and "
      "leave.\n\n";
  for (const Command& command : commands()) {
    text += "  " + command.name +
            std::string(10 - std::min<std::size_t>(9, command.name.size()), ' ') + command.summary +
            '\n';
  }
  return text +
         "\n  archipelago COMMAND --help   options of one command\n"
         "  archipelago --version        versions of the program and its libraries\n\n"
         "Exit codes: 0 done, 64 usage, 65 bad data, 70 internal, 75 try again with --resume, "
         "76 diverged, 78 bad configuration.\n";
}

std::string nearest_command(const std::string& name) {
  if (name == "status") return "watch";  // by what it does, not by its letters
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return config::nearest(name, names);
}

int dispatch(std::span<const std::string> arguments) {
  if (arguments.empty()) throw Error(ExitCode::usage, "no command given; see archipelago --help");
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h") {
    std::cout << overall_help();
    return 0;
  }
  if (name == "--version") {
    std::cout << version_text();
    return 0;
  }
  const auto found = std::ranges::find(commands(), name, &Command::name);
  if (found != commands().end()) return found->run(arguments.subspan(1));
  throw Error(ExitCode::usage, "unknown command '" + name + "'; the nearest is " +
                                   nearest_command(name) + "; see archipelago --help");
}

// A library catches SIGHUP before main() to print its state and stay. `train` and what starts it
// say themselves what a terminal's end does to a run; elsewhere it ends the command, unless nohup
// has it ignored.
void end_on_hangup(std::span<const std::string> arguments) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  if (name == "train" || name == "launch" || name == "join") return;
  struct sigaction action {};
  if (sigaction(SIGHUP, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGHUP, &action, nullptr);
}

// A value that the user gave may have several lines.
int report(ExitCode code, std::string message) {
  std::ranges::replace(message, '\n', ' ');
  if (reports_errors) std::cerr << "archipelago: " + message + '\n';
  return static_cast<int>(code);
}

}  // namespace
}  // namespace archipelago::cli

int main(int count, char** values) {
  using namespace archipelago;
  const std::vector<std::string> arguments(values + std::min(count, 1), values + count);
  cli::end_on_hangup(arguments);
  try {
    const int code = cli::dispatch(arguments);
    std::cout.flush();
    if (!std::cout) throw Error(ExitCode::configuration, "cannot write to standard output");
    return code;
  } catch (const Error& error) {
    return cli::report(error.code(), error.what());
  } catch (const std::system_error& error) {
    // The operating system refused: a folder, a disk, a limit; not a bug.
    return cli::report(ExitCode::configuration, error.what());
  } catch (const std::bad_alloc&) {
    return cli::report(ExitCode::configuration, "this machine has too little memory for that");
  } catch (const std::exception& error) {
    return cli::report(ExitCode::internal, std::string("internal error: ") + error.what());
  }
}
