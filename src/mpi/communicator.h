#pragma once

#include <mpi.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/check.h"

namespace archipelago::mpi {

// An owned communicator whose errors return. Freeing one is collective, so it never happens by
// going out of scope: `close` frees it together with its peers on the healthy path; the destructor
// only lets go of it.
class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(MPI_Comm comm);
  Communicator(Communicator&& other) noexcept : comm_(other.comm_) { other.comm_ = MPI_COMM_NULL; }
  Communicator& operator=(Communicator&& other) noexcept;

  MPI_Comm get() const { return comm_; }
  bool valid() const { return comm_ != MPI_COMM_NULL; }
  int rank() const;
  int size() const;

  // Collective over the communicator.
  void close();

  // Interrupts every pending call of all its members (MPIX_Comm_revoke). Local, never fails.
  void revoke() noexcept;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// Ranks of MPI_COMM_WORLD to a communicator in the given order; collective over these ranks only.
// Nothing when one of them has died.
std::optional<Communicator> create_group(const std::vector<int>& world_ranks, int tag);

// Waits for `request` without keeping a core busy: it tests, yields, then sleeps in short steps.
Outcome wait(MPI_Request& request, const std::string& doing);

// The same, but asks `is_over` between two tests, and returns nothing once that says so: the
// request is still under way then.
std::optional<Outcome> wait_unless(const std::function<bool()>& is_over, MPI_Request& request,
                                   const std::string& doing);

// Ends a receive that nobody wants any more, so that its memory may be used again. Where its
// message has begun to arrive, that is waited for.
void abandon_receive(MPI_Request& request, const std::string& doing);

}  // namespace archipelago::mpi
