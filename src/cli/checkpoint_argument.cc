#include "cli/checkpoint_argument.h"

#include <filesystem>
#include <iostream>
#include <system_error>

#include "checkpoint/names.h"
#include "core/error.h"

namespace archipelago::cli {

std::string checkpoint_argument(const std::string& argument) {
  const std::filesystem::path path(argument);
  std::error_code error;  // what cannot be looked at is a file to whoever opens it
  if (!std::filesystem::is_directory(path, error)) return argument;
  auto files = checkpoint::list_global(path / "checkpoints");
  if (files.empty()) files = checkpoint::list_global(path);
  if (files.empty()) {
    throw Error(ExitCode::bad_data,
                argument +
                    " is a folder without a global checkpoint; give a checkpoint's file, or the "
                    "folder of a run that has written one (checkpoints/global-ROUND.h5)");
  }
  std::cerr << "archipelago: takes the newest global checkpoint, " << files.front().path.string()
            << '\n';
  return files.front().path;
}

}  // namespace archipelago::cli
