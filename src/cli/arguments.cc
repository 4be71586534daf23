#include <cstdlib>
#include <iostream>

#include "cli/commands.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

bool wants_help(std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

std::optional<std::vector<std::string>> read_arguments(const Usage& usage,
                                                       std::span<const config::Option> options,
                                                       std::span<const std::string> arguments) {
  if (wants_help(arguments)) {
    std::cout << "usage: " << usage.synopsis << "\n\n"
              << usage.description << "\n\n"
              << config::help_text(options);
    return std::nullopt;
  }
  auto positional = config::read_command_line(options, arguments).positional;
  if (positional.size() < usage.positional) {
    throw Error(ExitCode::usage, "too few arguments; usage: " + std::string(usage.synopsis));
  }
  if (positional.size() > usage.most_positional) {
    throw Error(ExitCode::usage, "unexpected argument '" + positional[usage.most_positional] +
                                     "'; usage: " + std::string(usage.synopsis));
  }
  return positional;
}

void require_new_file(const std::filesystem::path& target, bool force,
                      std::span<const std::filesystem::path> inputs) {
  std::error_code error;  // a file that isn't there is the same as none
  for (const std::filesystem::path& input : inputs) {
    if (!std::filesystem::equivalent(target, input, error)) continue;
    throw Error(ExitCode::configuration,
                target.string() + " is also what is read; name another file to write");
  }
  const auto type = std::filesystem::symlink_status(target, error).type();
  using enum std::filesystem::file_type;
  if (type != regular && type != not_found && type != none) {
    // The new file takes its name: /dev/null and /dev/stdout would be gone.
    throw Error(ExitCode::configuration,
                target.string() + " is no regular file; name another file to write");
  }
  if (!force && type == regular) {
    throw Error(ExitCode::configuration,
                target.string() + " exists already; give --force to replace it");
  }
}

int job_rank() { return number_in("OMPI_COMM_WORLD_RANK"); }

int job_rank_on_host() { return number_in("OMPI_COMM_WORLD_LOCAL_RANK"); }

}  // namespace archipelago::cli
