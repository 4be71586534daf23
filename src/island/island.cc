#include "island/island.h"

#include <mpi-ext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/log.h"
#include "mpi/check.h"
#include "mpi/session.h"

namespace archipelago::island {
Island::Island(mpi::Communicator comm)
    : comm_(std::move(comm)), rank_(comm_.rank()), size_(comm_.size()) {
  gather_members();
}

void Island::gather_members() {
  const MemberWire own = own_member();
  std::vector<MemberWire> all(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Iallgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE,
                                  comm_.get(), &request);
  finish(code, request, "learning the island's members");
  for (const MemberWire& member : all) members_.push_back(from_wire(member));
}

void Island::broadcast(std::span<std::byte> bytes) {
  if (size_ == 1) return;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, comm_.get(), &request);
  finish(code, request, "broadcasting in the island");
}

void Island::all_reduce_mean(std::span<float> values) {
  if (size_ == 1) return;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                                  MPI_FLOAT, MPI_SUM, comm_.get(), &request);
  finish(code, request, "adding up gradients in the island");
  const float share = 1.0F / static_cast<float>(size_);
  for (float& value : values) value *= share;
}

void Island::finish(int code, MPI_Request& request, const std::string& doing) {
  if (mpi::outcome_of(code, doing) == mpi::Outcome::ok &&
      mpi::wait(request, doing) == mpi::Outcome::ok) {
    return;
  }
  end(doing);
}

void Island::check_members() {
  if (size_ == 1) return;
  MPI_Group failed = MPI_GROUP_NULL;
  int count = 0;
  mpi::check(MPIX_Comm_get_failed(comm_.get(), &failed), "asking for the island's dead");
  mpi::check(MPI_Group_size(failed, &count), "counting the island's dead");
  MPI_Group_free(&failed);
  if (count > 0) end("sleeping");
}

void Island::end(const std::string& doing) {
  log_warning("a rank of this island died while " + doing + "; the island ends as a whole");
  comm_.revoke();
  mpi::die_visibly();
}

void Island::close() { comm_.close(); }

}  // namespace archipelago::island
