#include "runtime/start.h"

#include <mpi.h>

#include <array>
#include <limits>
#include <string>
#include <system_error>

#include "core/file.h"
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

namespace {

// What each rank of the world, which has so many, has.
template <class Wire>
std::vector<Wire> gather(int world_size, const Wire& own, const std::string& doing) {
  std::vector<Wire> all(static_cast<std::size_t>(world_size));
  mpi::check(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD),
      doing);
  return all;
}

}  // namespace

std::vector<island::Member> gather_ranks(const Layout& layout) {
  std::vector<island::Member> ranks;
  for (const auto& wire :
       gather(layout.world_size(), island::own_member(), "learning who plays which island")) {
    ranks.push_back(island::from_wire(wire));
  }
  return ranks;
}

std::vector<std::string> gather_texts(int world_size, const std::string& own) {
  std::array<char, 320> text{};
  own.copy(text.data(), text.size() - 1);
  std::vector<std::string> texts;
  for (const auto& each : gather(world_size, text, "learning what the ranks have")) {
    texts.emplace_back(each.data());
  }
  return texts;
}

std::vector<std::vector<island::Member>> islands_among(const std::vector<island::Member>& ranks,
                                                       const Layout& layout) {
  std::vector<std::vector<island::Member>> islands;
  for (int i = 0; i < layout.islands; ++i) {
    const auto first = ranks.begin() + layout.first_rank(i);
    islands.emplace_back(first, first + layout.ranks_per_island);
  }
  return islands;
}

std::vector<std::vector<island::Member>> gather_islands(const Layout& layout) {
  return islands_among(gather_ranks(layout), layout);
}

std::string share_text(MPI_Comm comm, std::string text, const std::string& doing) {
  auto bytes = static_cast<std::int64_t>(text.size());
  mpi::check(MPI_Bcast(&bytes, 1, MPI_INT64_T, 0, comm), doing);
  text.resize(static_cast<std::size_t>(bytes));
  mpi::check(MPI_Bcast(text.data(), static_cast<int>(bytes), MPI_CHAR, 0, comm), doing);
  return text;
}

void require_same(const mpi::Session& session, const Description& own) {
  const std::string syncers = share_text(MPI_COMM_WORLD, to_text(own), "comparing ranks");
  const auto other = difference(own, description_from(syncers));
  if (!other) return;
  throw Error(ExitCode::configuration, "rank " + std::to_string(session.rank()) + " on " +
                                           host_name() + " does not fit into this run: " + *other +
                                           "; give all ranks the same program, options and data");
}

void wait_for_world() {
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "waiting for all ranks");
  // A rank that dies now was not needed any more.
  static_cast<void>(mpi::wait(request, "waiting for all ranks"));
}

}  // namespace archipelago::runtime
