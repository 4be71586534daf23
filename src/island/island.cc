#include "island/island.h"

#include <mpi-ext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "mpi/check.h"
#include "mpi/session.h"

namespace archipelago::island {
namespace {

// As MPI takes them: counts and where each rank's elements begin.
struct Parts {
  std::vector<int> counts;
  std::vector<int> starts;
};

Parts parts_of(std::span<const std::int64_t> counts) {
  Parts parts;
  std::int64_t start = 0;
  for (const std::int64_t count : counts) {
    parts.counts.push_back(static_cast<int>(count));
    parts.starts.push_back(static_cast<int>(start));
    start += count;
  }
  if (start > std::numeric_limits<int>::max()) {
    throw Error(ExitCode::configuration,
                "a batch of this size is too large to be divided among an island's experts; make "
                "train.batch smaller or train.accumulate larger");
  }
  return parts;
}

}  // namespace

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

void Island::all_to_all(std::span<const float> sent, std::span<const std::int64_t> sent_counts,
                        std::span<float> received, std::span<const std::int64_t> received_counts) {
  const Parts out = parts_of(sent_counts);
  const Parts in = parts_of(received_counts);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Ialltoallv(sent.data(), out.counts.data(), out.starts.data(), MPI_FLOAT, received.data(),
                     in.counts.data(), in.starts.data(), MPI_FLOAT, comm_.get(), &request);
  finish(code, request, "exchanging rows of experts in the island");
}

void Island::all_to_all(std::span<const std::int64_t> sent, std::span<std::int64_t> received) {
  const int each = static_cast<int>(sent.size()) / size_;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Ialltoall(sent.data(), each, MPI_INT64_T, received.data(), each, MPI_INT64_T,
                                 comm_.get(), &request);
  finish(code, request, "exchanging counts of experts' rows in the island");
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
