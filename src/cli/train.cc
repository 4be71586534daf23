#include "runtime/train.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

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

// Every rank reads the same options and fails alike; one of them says so.
config::RunConfig read_options(std::span<const std::string> arguments) {
  try {
    return parse_train_arguments(arguments, {});
  } catch (const Error&) {
    if (job_rank() != 0) {
      reports_errors = false;
      // mpirun ends all at the first rank that fails: that must be the one that speaks.
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    throw;
  }
}

}  // namespace

int run_train(std::span<const std::string> arguments) {
  if (wants_help(arguments)) {
    std::cout << train_help();
    return 0;
  }
  const config::RunConfig config = read_options(arguments);
  make_shared_folder();
  return runtime::train(config);
}

}  // namespace archipelago::cli
