#include "runtime/train.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "cli/commands.h"
#include "cli/train_arguments.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

// The launcher gives a job a folder of its own for what MPI shares between processes; on other
// hosts than the launcher's nobody has made it yet.
void make_shared_folder() {
  const char* const folder = std::getenv("OMPI_MCA_btl_sm_backing_directory");
  std::error_code error;  // MPI says better what it can't work with
  if (folder != nullptr) std::filesystem::create_directories(folder, error);
}

}  // namespace

int run_train(std::span<const std::string> arguments) {
  if (wants_help(arguments)) {
    std::cout << train_help();
    return 0;
  }
  // Every rank reads the same options and fails alike; one of them says so.
  reports_errors = job_rank() == 0;
  const config::RunConfig defaults;
  const config::RunConfig config = parse_train_arguments(arguments, defaults);
  reports_errors = true;
  make_shared_folder();
  return runtime::train(config);
}

}  // namespace archipelago::cli
