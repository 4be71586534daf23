#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "link/mpi_syncer_end.h"
#include "link/replica.h"
#include "mpi/communicator.h"
#include "runtime/job.h"
#include "runtime/mirror.h"
#include "runtime/refill.h"
#include "runtime/standby_process.h"
#include "runtime/start.h"
#include "runtime/syncer_process.h"
#include "runtime/validation.h"

namespace archipelago::runtime {
namespace {

// The pair of syncer and standby; its tag follows those of all other groups (play_island.cc).
mpi::Communicator connect_standby(const Layout& layout) {
  const int tag = (layout.syncers + 1) * layout.islands;
  auto comm = mpi::create_group({Layout::kSyncer, Layout::kSyncer + 1}, tag);
  if (!comm) throw Error(ExitCode::try_again, "a syncer died while the job was starting");
  return std::move(*comm);
}

std::unique_ptr<link::MpiSyncerEnd> connect_leaders(const Job& job) {
  auto link = std::make_unique<link::MpiSyncerEnd>(job.mailbox());
  for (auto& pair : create_pairs(job)) link->add(std::move(pair));
  return link;
}

evaluate::Score final_score(const Job& job, const SyncerProcess& syncer) {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  return validation_score(*job.setup, *job.dataset, syncer.state().flat_parameters(), threads);
}

}  // namespace

void play_syncer(Job& job) {
  set_log_speaker("syncer");
  SyncerStart start;
  start.islands = gather_islands(*job.layout);
  start.restored = std::move(job.restored);
  const auto link = connect_leaders(job);
  std::unique_ptr<link::ReplicaSender> standby;
  if (job.layout->standbys() > 0) {
    standby = std::make_unique<link::ReplicaSender>(connect_standby(*job.layout));
  }

  Refill refill(job.setup->config, job.mailbox(), describe(*job.setup, *job.dataset));
  SyncerProcess syncer(*job.setup, job.folder, *link, standby.get(), start,
                       [&refill](int islands) { refill.request(islands); });
  while (syncer.turn()) {
    for (auto& island : refill.take()) {
      link->add(std::move(island.pair));
      syncer.add_island(std::move(island.members));
    }
  }
  const int code = syncer.conclude(final_score(job, syncer));
  if (!syncer.orderly()) job.session.leave(code, mpi::Ending::abrupt);
  wait_for_world();
  link->close();
  if (standby) standby->close();
  job.session.leave(code, mpi::Ending::orderly);
}

void play_standby(Job& job) {
  set_log_speaker("standby");
  const auto islands = gather_islands(*job.layout);
  const auto link = connect_leaders(job);
  link::ReplicaReceiver receiver(connect_standby(*job.layout));
  Mirror mirror(*job.setup, job.restored, job.layout->islands);

  const auto end = StandbyProcess(receiver, mirror, job.setup->config.sync.suspect).run();
  if (end == StandbyProcess::End::concluded) {
    wait_for_world();
    link->close();
    receiver.close();
    job.session.leave(0, mpi::Ending::orderly);
  }
  if (end == StandbyProcess::End::concluded_after_losses) {
    job.session.leave(0, mpi::Ending::abrupt);
  }
  set_log_speaker("syncer");
  job.folder.inherit();
  const SyncerStart start{{}, islands, &mirror, 1};
  SyncerProcess syncer(*job.setup, job.folder, *link, nullptr, start, [](int) {});
  while (syncer.turn()) {
  }
  job.session.leave(syncer.conclude(final_score(job, syncer)), mpi::Ending::abrupt);
}

}  // namespace archipelago::runtime
