#include "mpi/session.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "core/log.h"
#include "mpi/check.h"
#include "mpi/launcher.h"

namespace archipelago::mpi {
namespace {

bool fault_tolerance_enabled() {
  int provided = 0;
  check(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), "starting MPI's tool interface");
  int index = -1;
  bool enabled = false;
  if (MPI_T_cvar_get_index("mpi_ft_enable", &index) == MPI_SUCCESS) {
    MPI_T_cvar_handle handle;
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
      unsigned char value[16] = {};
      enabled = count <= 16 && MPI_T_cvar_read(handle, value) == MPI_SUCCESS && value[0] == 1;
      MPI_T_cvar_handle_free(&handle);
    }
  }
  MPI_T_finalize();
  return enabled;
}

}  // namespace

Session::Session() {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    log_error("MPI did not start");
    die_visibly();  // mpirun ends the whole job when a rank that was spawned exits now
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "setting the error handler");
  check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "setting the error handler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "asking for the rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "asking for the world's size");
  check(MPI_Comm_get_parent(&parent_), "asking for the parent");
  if (provided < MPI_THREAD_MULTIPLE) {
    refuse("this MPI does not allow several threads (MPI_THREAD_MULTIPLE); use Open MPI 5");
  }
  if (!fault_tolerance_enabled()) {
    refuse(
        "MPI's fault tolerance is off: start with `mpirun --with-ft ulfm ...` "
        "or `archipelago launch`");
  }
}

void Session::refuse(const std::string& why) {
  // The line must be out before any rank ends: without fault tolerance that ends the job.
  if (rank_ == 0) log_error(why);
  reports_errors = false;
  MPI_Finalize();
  throw Error(ExitCode::configuration, why);
}

void Session::leave(int exit_code, Ending ending) {
  if (ending == Ending::orderly && !launcher_is_gone()) MPI_Finalize();
  std::fflush(nullptr);
  ::_exit(exit_code);
}

void die_visibly() noexcept {
  std::fflush(nullptr);
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace archipelago::mpi
