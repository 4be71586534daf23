#include "baseline/train.h"

#include <sys/resource.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "baseline/conclude.h"
#include "baseline/coordinator.h"
#include "baseline/data_parallel.h"
#include "baseline/diloco.h"
#include "baseline/elastic_rank.h"
#include "baseline/learner.h"
#include "baseline/records.h"
#include "baseline/ring.h"
#include "baseline/roll.h"
#include "core/error.h"
#include "core/log.h"
#include "island/island.h"
#include "mpi/communicator.h"
#include "runtime/job.h"
#include "runtime/run_record.h"
#include "runtime/start.h"
#include "runtime/train.h"

namespace archipelago::baseline {
namespace {

constexpr int kRecorder = 0;  // the rank that writes the run's files

// Tags of the groups made at the start; islands' come after them.
enum GroupTag : int { kRollTag, kRingTag, kIslandTag };

mpi::Communicator group(const std::vector<int>& ranks, int tag) {
  auto comm = mpi::create_group(ranks, tag);
  if (!comm) throw Error(ExitCode::try_again, "a rank died while the job was starting");
  return std::move(*comm);
}

std::vector<int> every(int step, int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; rank += step) ranks.push_back(rank);
  return ranks;
}

// Of this rank: what it exchanges over, and the method on top.
struct Exchange {
  mpi::Communicator ring_comm;  // of all ranks, or of the leaders on these only
  std::unique_ptr<Ring> ring;
  std::unique_ptr<island::Island> island;
  std::unique_ptr<Method> method;

  void close() {
    if (ring) ring->stop();
    ring_comm.close();
    if (island) island->close();
  }
};

// A ring of all ranks of `comm`, in their order.
RingPlace place_in(const mpi::Communicator& comm) {
  RingPlace place;
  place.comm = comm.get();
  place.index = comm.rank();
  place.size = comm.size();
  place.successor = (place.index + 1) % place.size;
  place.predecessor = (place.index + place.size - 1) % place.size;
  return place;
}

Exchange make_data_parallel(const runtime::Job& job, runtime::LearnerState& state) {
  const int ranks = job.session.size();
  const auto island_of = [&](int rank) { return job.layout->island_of((rank + ranks) % ranks); };
  const int rank = job.session.rank();
  Exchange exchange;
  exchange.ring_comm = group(every(1, ranks), kRingTag);
  RingPlace place = place_in(exchange.ring_comm);
  place.successor_is_far = island_of(rank + 1) != island_of(rank);
  place.predecessor_is_far = island_of(rank - 1) != island_of(rank);
  exchange.ring = std::make_unique<Ring>(place);
  exchange.method = std::make_unique<DataParallel>(*job.setup, state, *exchange.ring);
  return exchange;
}

Exchange make_diloco(const runtime::Job& job, runtime::LearnerState& state) {
  const runtime::Layout& layout = *job.layout;
  const int rank = job.session.rank();
  const int number = layout.island_of(rank);
  std::vector<int> members(static_cast<std::size_t>(layout.ranks_per_island));
  std::iota(members.begin(), members.end(), layout.first_rank(number));
  Exchange exchange;
  exchange.island = std::make_unique<island::Island>(group(members, kIslandTag + number));
  if (layout.is_leader(rank)) {
    const auto leaders = every(layout.ranks_per_island, layout.world_size());
    exchange.ring_comm = group(leaders, kRingTag);
    RingPlace place = place_in(exchange.ring_comm);
    place.successor_is_far = place.predecessor_is_far = true;
    exchange.ring = std::make_unique<Ring>(place);
  }
  island::Island& island = *exchange.island;
  exchange.method = std::make_unique<Diloco>(
      *job.setup, state,
      IslandCalls{[&island](std::span<float> values) { island.all_reduce_mean(values); },
                  [&island](std::span<std::byte> bytes) { island.broadcast(bytes); }},
      exchange.ring.get());
  return exchange;
}

// Lets the steps yield to the exchange, and to the records, where they share a core.
void yield_to_exchange() {
  constexpr int kNice = 5;
  ::setpriority(PRIO_PROCESS, 0, kNice);
}

[[noreturn]] void train_elastically(runtime::Job& job) {
  auto islands = runtime::gather_islands(*job.layout);
  const int rank = job.session.rank();
  if (rank == kCoordinator) {
    set_log_speaker("coordinator");
    Coordinator coordinator(job, std::move(islands));
    const int code = coordinator.run();
    job.session.leave(code, coordinator.ending());
  }
  set_log_speaker("island=" + std::to_string(job.layout->island_of(rank)) + " rank=" +
                  std::to_string(rank - job.layout->first_rank(job.layout->island_of(rank))));
  yield_to_exchange();
  ElasticRank own(*job.setup, *job.dataset, *job.layout, rank);
  job.session.leave(0, own.play());
}

[[noreturn]] void train_to_the_end(runtime::Job& job) {
  if (config::has_coordinator(job.setup->config)) train_elastically(job);
  const runtime::Layout& layout = *job.layout;
  const int rank = job.session.rank();
  set_log_speaker("learner=" + std::to_string(layout.island_of(rank)) +
                  " rank=" + std::to_string(rank - layout.first_rank(layout.island_of(rank))));
  auto islands = runtime::gather_islands(layout);
  Learner learner(*job.setup, *job.dataset, job.folder, layout, rank);
  Exchange exchange = job.setup->config.method == "data-parallel"
                          ? make_data_parallel(job, learner.state())
                          : make_diloco(job, learner.state());
  Roll roll(group(every(1, job.session.size()), kRollTag));
  yield_to_exchange();

  std::optional<Records> records;
  if (rank == kRecorder) records.emplace(*job.setup, job.folder, std::move(islands));
  learner.train(*exchange.method, exchange.ring.get(), roll, records ? &*records : nullptr);
  int code = 0;
  if (records) {
    code = conclude(job, exchange.method->result(),
                    {learner.complete(), learner.diverged(), exchange.method->rounds()}, *records);
  }
  runtime::wait_for_world();
  exchange.close();
  roll.close();
  job.session.leave(code, mpi::Ending::orderly);
}

int play(mpi::Session& session, const config::RunConfig& config) {
  runtime::Job job{session, runtime::RunFolder(config.out), {}, {}, {}, {}};
  if (const auto code = runtime::prepare_job(job, config)) return *code;
  try {
    train_to_the_end(job);
  } catch (const Error& error) {
    if (session.rank() == kRecorder) {
      runtime::RunRecord(job.folder)
          .write_summary({{"outcome", "failed"},
                          {"reason", error.what()},
                          {"exit_code", static_cast<int>(error.code())}});
      job.folder.mark_as_failed();
    }
    throw;
  }
}

}  // namespace

config::RunConfig resolved(config::RunConfig config) {
  config.sync.merge = "mean";
  if (config.method == "diloco") {
    config.sync.fragments = 1;
    config.sync.overlap = 0;
  }
  return config;
}

void train(const config::RunConfig& config) { runtime::play_rank(resolved(config), play); }

}  // namespace archipelago::baseline
