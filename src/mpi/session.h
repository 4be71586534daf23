#pragma once

#include <mpi.h>

#include <string>

namespace archipelago::mpi {

// How a process leaves a job.
enum class Ending {
  orderly,  // nobody died: MPI_Finalize, which waits for all
  abrupt,   // somebody died: _exit at once, since MPI_Finalize can hang after a failure
};

// MPI from its initialisation on. One a process.
class Session {
 public:
  // Initialises MPI with MPI_THREAD_MULTIPLE, makes errors return, and checks that ULFM's fault
  // tolerance is on. Throws Error(configuration) saying how to start the job otherwise.
  Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Whether this process was started by MPI_Comm_spawn, and the intercommunicator to its parent.
  bool spawned() const { return parent_ != MPI_COMM_NULL; }
  MPI_Comm parent() const { return parent_; }

  // Ends the process with `exit_code`; never returns.
  [[noreturn]] void leave(int exit_code, Ending ending);

 private:
  // The same on every rank. Collective.
  [[noreturn]] void refuse(const std::string& why);

  int rank_ = 0;
  int size_ = 1;
  MPI_Comm parent_ = MPI_COMM_NULL;
};

// Ends this process so that its peers are told at once: another exit may go unseen
// (docs/design.md, "Failure").
[[noreturn]] void die_visibly() noexcept;

}  // namespace archipelago::mpi
