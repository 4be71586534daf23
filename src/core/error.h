#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

namespace archipelago {

// What a process tells its caller; documented in docs/design.md ("Exit codes").
enum class ExitCode : int {
  done = 0,
  usage = 64,          // wrong command line
  bad_data = 65,       // a token file, image file or checkpoint that cannot be used
  internal = 70,       // a bug, or a runtime library that failed
  try_again = 75,      // stopped early; go on with --resume
  diverged = 76,       // training has; the newest checkpoint is from before
  configuration = 78,  // options, environment or output folder that cannot work
};

// An error that ends the command. `what()` is one line: what is wrong, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

// Whether main() prints the error that ends this process. Where all ranks of a job throw the same
// Error, all but one set it to false.
inline std::atomic<bool> reports_errors{true};

}  // namespace archipelago
