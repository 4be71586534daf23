#include <mpi.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "island/island.h"
#include "link/mpi_leader_end.h"
#include "link/tls_leader_end.h"
#include "mpi/check.h"
#include "mpi/communicator.h"
#include "runtime/communication.h"
#include "runtime/device.h"
#include "runtime/faults.h"
#include "runtime/guest_door.h"
#include "runtime/island_process.h"
#include "runtime/job.h"
#include "runtime/refill.h"
#include "runtime/refusal.h"
#include "runtime/start.h"

namespace archipelago::runtime {
namespace {

// This rank among those of islands on its host.
struct OnHost {
  int place;
  int ranks;
};

using Ends = std::vector<std::unique_ptr<link::LeaderEnd>>;

// Of a leader, with each syncer.
Ends ends_of(const Job& job, std::vector<link::MpiPair> pairs) {
  Ends ends;
  for (auto& pair : pairs) {
    const auto mailbox = job.layout ? job.mailbox(static_cast<int>(ends.size())) : job.mailbox();
    ends.push_back(std::make_unique<link::MpiLeaderEnd>(std::move(pair), mailbox));
  }
  return ends;
}

// Null but on the leader.
std::unique_ptr<Communication> communicate(const Job& job, island::Island& island, Ends ends) {
  if (!island.is_leader()) return nullptr;
  return std::make_unique<Communication>(
      std::move(ends),
      std::make_unique<FragmentEncoder>(job.setup->wire, job.setup->fragment_count(),
                                        job.setup->config.train.threads),
      std::make_unique<FragmentDecoder>(job.setup->wire, job.setup->fragment_count(),
                                        job.setup->config.train.threads),
      [&island](const link::DownHeader& fault) { inflict(fault, island); },
      static_cast<std::size_t>(job.setup->config.sync.syncers));
}

IslandProcess make_process(const Job& job, OnHost here, island::Island& island,
                           Communication* communication) {
  // Computing yields to communication and to the syncer where they share a core.
  constexpr int kNice = 5;
  ::setpriority(PRIO_PROCESS, 0, kNice);

  const config::RunConfig& config = job.setup->config;
  const kernels::Device device = choose_device(config, here.place);
  return {*job.setup, *job.dataset, job.folder, device, energy_share(config, device, here.ranks),
          island,     communication};
}

// `pairs`: on the leader, one with each syncer.
[[noreturn]] void play(Job& job, OnHost here, mpi::Communicator comm,
                       std::vector<link::MpiPair> pairs) {
  island::Island island(std::move(comm));
  const auto communication = communicate(job, island, ends_of(job, std::move(pairs)));
  const IslandEnd end = make_process(job, here, island, communication.get()).run();
  if (end == IslandEnd::finished) {
    wait_for_world();
    if (communication) {
      for (const auto& link : communication->stop()) {
        static_cast<link::MpiLeaderEnd&>(*link).close();
      }
    }
    island.close();
    job.session.leave(0, mpi::Ending::orderly);
  }
  const bool lost = end == IslandEnd::syncer_lost;
  if (lost && island.is_leader()) log_warning("no syncer is left; the checkpoint is written");
  job.session.leave(static_cast<int>(lost ? ExitCode::try_again : ExitCode::done),
                    mpi::Ending::abrupt);
}

}  // namespace

void play_island(Job& job) {
  const Layout& layout = *job.layout;
  const int number = layout.island_of(job.session.rank());
  set_log_speaker("island=" + std::to_string(number));
  const auto islands = gather_islands(layout);
  auto pairs = create_pairs(job);

  std::vector<int> ranks;
  for (int r = 0; r < layout.ranks_per_island; ++r) ranks.push_back(layout.first_rank(number) + r);
  // Tags follow those of the pairs.
  auto comm = mpi::create_group(ranks, layout.syncers * layout.islands + number);
  if (!comm) throw Error(ExitCode::try_again, "a rank died while the job was starting");
  const int rank = job.session.rank() - ranks.front();
  const OnHost here{place_on_host(islands, number, rank), ranks_on_host(islands, number, rank)};
  play(job, here, std::move(*comm), std::move(pairs));
}

void play_spawned_island(Job& job) {
  set_log_speaker("island=new");
  auto joined = Refill::join(job.session, job.mailbox(), describe(*job.setup, *job.dataset));
  std::vector<link::MpiPair> pairs;
  if (joined.pair) pairs.push_back(std::move(*joined.pair));
  // Where it is among the host's ranks is not known: the ranks of one island go to GPUs of their
  // own.
  const auto& sync = job.setup->config.sync;
  const OnHost here{joined.island.rank(), sync.learners * sync.ranks_per_learner};
  play(job, here, std::move(joined.island), std::move(pairs));
}

int play_guest(Job& job) {
  set_log_speaker("guest");
  MPI_Comm copy = MPI_COMM_NULL;
  mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "making the island");
  island::Island island{mpi::Communicator(copy)};
  Ends ends;
  const auto refused = attempt_together(job.session, [&] {
    if (!island.is_leader()) return;
    const auto invitation = read_invitation(job.folder.invitation());
    if (!invitation) {
      throw Error(ExitCode::try_again,
                  "the run in " + job.folder.path().string() + " takes in no islands now");
    }
    ends.push_back(std::make_unique<link::TlsLeaderEnd>(
        knock(*invitation, describe(*job.setup, *job.dataset), island.members()), job.mailbox()));
  });
  if (refused) return *refused;
  auto communication = communicate(job, island, std::move(ends));
  auto process = make_process(job, {island.rank(), island.size()}, island, communication.get());
  process.heed_signals();
  const IslandEnd end = process.run();
  communication.reset();  // the syncer hears all that was said
  if (end == IslandEnd::left && island.is_leader()) log_info("leaves the run, as it was asked to");
  if (end == IslandEnd::syncer_lost && island.is_leader()) log_warning("the syncer is gone");
  // All ranks of this job live.
  wait_for_world();
  const bool is_over = end == IslandEnd::finished || end == IslandEnd::finished_after_losses;
  const bool is_complete = is_over && process.all_is_trained();
  const auto code = static_cast<int>(is_complete ? ExitCode::done : ExitCode::try_again);
  leave_refusal(island.rank(), is_over && !is_complete ? kRunEndedEarly : code);
  job.session.leave(island.is_leader() ? code : 0, mpi::Ending::orderly);
}

}  // namespace archipelago::runtime
