#include "mpi/check.h"

#include <mpi-ext.h>

#include "core/error.h"

namespace archipelago::mpi {
namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    return "MPI error " + std::to_string(code);
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace

Outcome outcome_of(int code, const std::string& doing) {
  if (code == MPI_SUCCESS) return Outcome::ok;
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &error_class);
  if (error_class == MPIX_ERR_PROC_FAILED || error_class == MPIX_ERR_PROC_FAILED_PENDING ||
      error_class == MPIX_ERR_REVOKED) {
    return Outcome::peer_failed;
  }
  throw Error(ExitCode::internal, doing + ": " + text_of(code));
}

void check(int code, const std::string& doing) {
  if (code != MPI_SUCCESS) throw Error(ExitCode::internal, doing + ": " + text_of(code));
}

}  // namespace archipelago::mpi
