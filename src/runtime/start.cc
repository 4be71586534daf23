#include "runtime/start.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>

#include "core/log.h"
#include "mpi/check.h"
#include "mpi/communicator.h"

namespace archipelago::runtime {

std::optional<int> attempt_together(const mpi::Session& session,
                                    const std::function<void()>& step) {
  int code = 0;
  std::string message;
  try {
    step();
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    message = error.what();
  } catch (const std::system_error& error) {
    // The operating system refused: a folder, a disk, a limit; not a bug.
    code = static_cast<int>(ExitCode::configuration);
    message = error.what();
  } catch (const std::exception& error) {
    code = static_cast<int>(ExitCode::internal);
    message = error.what();
  }
  int speaker = code != 0 ? session.rank() : std::numeric_limits<int>::max();
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
             "agreeing on the start");
  if (speaker == std::numeric_limits<int>::max()) return std::nullopt;
  if (speaker == session.rank()) log_error(message);
  mpi::check(MPI_Bcast(&code, 1, MPI_INT, speaker, MPI_COMM_WORLD), "agreeing on the start");
  return code;
}

std::vector<std::vector<island::Member>> gather_islands(const Layout& layout) {
  const island::MemberWire own = island::own_member();
  std::vector<island::MemberWire> all(static_cast<std::size_t>(layout.world_size()));
  mpi::check(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD),
      "learning who plays which island");
  std::vector<std::vector<island::Member>> islands(static_cast<std::size_t>(layout.islands));
  for (int i = 0; i < layout.islands; ++i) {
    for (int r = 0; r < layout.ranks_per_island; ++r) {
      islands[static_cast<std::size_t>(i)].push_back(
          island::from_wire(all[static_cast<std::size_t>(layout.first_rank(i) + r)]));
    }
  }
  return islands;
}

void require_same(const mpi::Session& session, std::uint64_t value, const std::string& what) {
  std::uint64_t range[2] = {value, ~value};
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD),
             "comparing ranks");
  if (range[0] != ~range[1] && session.rank() == 0) {
    throw Error(ExitCode::bad_data, what +
                                        " differs between the job's hosts; give all of them "
                                        "the same");
  }
}

void wait_for_world() {
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "waiting for all ranks");
  // A rank that dies now was not needed any more.
  static_cast<void>(mpi::wait(request, "waiting for all ranks"));
}

}  // namespace archipelago::runtime
