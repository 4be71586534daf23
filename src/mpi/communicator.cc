#include "mpi/communicator.h"

#include <mpi-ext.h>
#include <sched.h>

#include <chrono>
#include <thread>

namespace archipelago::mpi {

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN),
        "setting a communicator's error handler");
}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  comm_ = other.comm_;
  other.comm_ = MPI_COMM_NULL;
  return *this;
}

int Communicator::rank() const {
  int rank = 0;
  check(MPI_Comm_rank(comm_, &rank), "asking for a communicator's rank");
  return rank;
}

int Communicator::size() const {
  int size = 0;
  check(MPI_Comm_size(comm_, &size), "asking for a communicator's size");
  return size;
}

void Communicator::close() {
  if (valid()) check(MPI_Comm_free(&comm_), "freeing a communicator");
}

void Communicator::revoke() noexcept {
  if (valid()) MPIX_Comm_revoke(comm_);
}

std::optional<Communicator> create_group(const std::vector<int>& world_ranks, int tag) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "asking for the world's group");
  check(MPI_Group_incl(world, static_cast<int>(world_ranks.size()), world_ranks.data(), &group),
        "making a group");
  MPI_Comm comm = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comm);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  if (code != MPI_SUCCESS || comm == MPI_COMM_NULL) return std::nullopt;
  return Communicator(comm);
}

Outcome wait(MPI_Request& request, const std::string& doing) {
  return *wait_unless([] { return false; }, request, doing);
}

std::optional<Outcome> wait_unless(const std::function<bool()>& is_over, MPI_Request& request,
                                   const std::string& doing) {
  using namespace std::chrono_literals;
  constexpr int kTestsBeforeSleep = 64;
  for (int tests = 0;; ++tests) {
    int done = 0;
    const Outcome outcome = outcome_of(MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing);
    if (outcome != Outcome::ok || done) return outcome;
    if (is_over()) return std::nullopt;
    if (tests < kTestsBeforeSleep) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(100us);
    }
  }
}

void abandon_receive(MPI_Request& request, const std::string& doing) {
  if (request == MPI_REQUEST_NULL) return;
  check(MPI_Cancel(&request), doing);
  static_cast<void>(wait(request, doing));
}

}  // namespace archipelago::mpi
