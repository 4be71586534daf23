#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "link/mpi_syncer_end.h"
#include "link/replica.h"
#include "link/several_ends.h"
#include "link/tls_syncer_end.h"
#include "mpi/communicator.h"
#include "runtime/clock.h"
#include "runtime/guest_door.h"
#include "runtime/job.h"
#include "runtime/merging_syncer.h"
#include "runtime/mirror.h"
#include "runtime/other_syncers.h"
#include "runtime/refill.h"
#include "runtime/standby_process.h"
#include "runtime/start.h"
#include "runtime/syncer_process.h"
#include "runtime/validation.h"

namespace archipelago::runtime {
namespace {

constexpr double kDoorSeconds = 5;     // between two tries to open the door
constexpr double kGoodbyeSeconds = 5;  // for guests that have been told to leave

// `number`: differs from pair to pair; tags follow those of all other groups (play_island.cc).
mpi::Communicator connect(const Layout& layout, int sender, int receiver, int number) {
  const int tag = (layout.syncers + 1) * layout.islands + number;
  auto comm = mpi::create_group({sender, receiver}, tag);
  if (!comm) throw Error(ExitCode::try_again, "a syncer died while the job was starting");
  return std::move(*comm);
}

mpi::Communicator connect_standby(const Layout& layout) {
  return connect(layout, Layout::kSyncer, layout.merging, 0);
}

// What a syncer that merges beside the first one has with it.
struct Streams {
  mpi::Communicator decisions;
  mpi::Communicator events;
  mpi::Communicator fragments;
};

Streams connect_merging(const Layout& layout, int syncer) {
  return {connect(layout, Layout::kSyncer, syncer, 3 * syncer),
          connect(layout, syncer, Layout::kSyncer, 3 * syncer + 1),
          connect(layout, syncer, Layout::kSyncer, 3 * syncer + 2)};
}

std::unique_ptr<OtherSyncers> connect_others(const Job& job,
                                             const std::vector<island::Member>& ranks) {
  const Layout& layout = *job.layout;
  if (layout.merging == 1) return nullptr;
  auto others = std::make_unique<OtherSyncers>(job.setup->config.sync.expel);
  for (int syncer = 1; syncer < layout.merging; ++syncer) {
    Streams streams = connect_merging(layout, syncer);
    others->add({std::make_unique<link::ReplicaSender>(std::move(streams.decisions)),
                 std::make_unique<link::ReplicaReceiver>(std::move(streams.events)),
                 std::make_unique<link::ReplicaReceiver>(std::move(streams.fragments))},
                ranks[static_cast<std::size_t>(syncer)]);
  }
  return others;
}

// The standby's, which goes on without one. The syncer before may still hold the port: it is tried
// again and again.
class StandbyDoor {
 public:
  explicit StandbyDoor(const Job& job) : job_(job) {}

  // Null while there is none.
  GuestDoor* door() {
    if (!door_ && now_seconds() >= next_try_) open();
    return door_.get();
  }

 private:
  void open() {
    next_try_ = now_seconds() + kDoorSeconds;
    try {
      door_ = open_door(job_);
      if (!door_) next_try_ = std::numeric_limits<double>::infinity();
    } catch (const std::exception& error) {
      if (!std::exchange(has_failed_, true)) {
        log_warning(std::string("no guests can come in now: ") + error.what());
      }
    }
  }

  const Job& job_;
  std::unique_ptr<GuestDoor> door_;
  double next_try_ = 0;
  bool has_failed_ = false;
};

void let_in(GuestDoor* door, link::TlsSyncerEnd& outside, link::SeveralEnds& link,
            SyncerProcess& syncer) {
  if (door == nullptr) return;
  for (auto& guest : door->take()) {
    link.add(outside, outside.add(std::move(guest.connection)));
    syncer.add_island(std::move(guest.members), SyncerProcess::Origin::outside);
  }
}

std::unique_ptr<link::MpiSyncerEnd> connect_leaders(const Job& job) {
  auto link = std::make_unique<link::MpiSyncerEnd>(job.mailbox(job.session.rank()));
  for (auto& pair : create_pairs(job)) link->add(std::move(pair));
  return link;
}

evaluate::Score final_score(const Job& job, const SyncerProcess& syncer) {
  if (syncer.failed()) return {std::numeric_limits<double>::quiet_NaN(), {}, 0};
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  return validation_score(*job.setup, *job.dataset, syncer.state().flat_parameters(), threads);
}

// Beside training: on one thread.
std::function<evaluate::Score(const GlobalState&)> validation_of(const Job& job) {
  if (!job.setup->config.checkpoint.validate) return {};
  return [&setup = *job.setup, &dataset = *job.dataset](const GlobalState& state) {
    return validation_score(setup, dataset, state.flat_parameters(), 1);
  };
}

}  // namespace

void play_syncer(Job& job) {
  set_log_speaker("syncer");
  SyncerStart start;
  const auto ranks = gather_ranks(*job.layout);
  start.islands = islands_among(ranks, *job.layout);
  start.restored = std::move(job.restored);
  start.struck = std::move(job.struck);
  const auto leaders = connect_leaders(job);
  link::TlsSyncerEnd outside(job.mailbox());
  link::SeveralEnds link({leaders.get(), &outside});
  const auto others = connect_others(job, ranks);
  start.others = others.get();
  start.validate = validation_of(job);
  std::unique_ptr<link::ReplicaSender> standby;
  if (job.layout->standbys() > 0) {
    standby = std::make_unique<link::ReplicaSender>(connect_standby(*job.layout));
  }

  Refill refill(job.setup->config, job.mailbox(), describe(*job.setup, *job.dataset));
  SyncerProcess syncer(*job.setup, job.folder, link, standby.get(), start,
                       [&refill](int islands) { refill.request(islands); });
  while (syncer.turn()) {
    for (auto& island : refill.take()) {
      link.add(*leaders, leaders->add(std::move(island.pair)));
      syncer.add_island(std::move(island.members));
    }
    let_in(job.door.get(), outside, link, syncer);
  }
  const int code = syncer.conclude(final_score(job, syncer));
  outside.wait_for_leaders(kGoodbyeSeconds);
  if (!syncer.orderly()) job.session.leave(code, mpi::Ending::abrupt);
  wait_for_world();
  leaders->close();
  if (standby) standby->close();
  if (others) others->close();
  job.session.leave(code, mpi::Ending::orderly);
}

void play_merging_syncer(Job& job) {
  const int number = job.session.rank();
  set_log_speaker("syncer=" + std::to_string(number));
  gather_ranks(*job.layout);
  const auto link = connect_leaders(job);
  Streams streams = connect_merging(*job.layout, number);
  link::ReplicaReceiver decisions(std::move(streams.decisions));
  link::ReplicaSender events(std::move(streams.events));
  link::ReplicaSender fragments(std::move(streams.fragments));
  MergingSyncer syncer(*job.setup, job.share(number), *link, {decisions, events, fragments},
                       std::exchange(job.restored, std::nullopt));
  std::optional<MergingSyncer::End> end;
  while (!end) end = syncer.turn();

  if (*end == MergingSyncer::End::concluded) {
    wait_for_world();
    link->close();
    decisions.close();
    events.close();
    fragments.close();
    job.session.leave(0, mpi::Ending::orderly);
  }
  const bool deserted = *end == MergingSyncer::End::deserted;
  if (deserted) log_warning("the first syncer is dead; this one ends");
  job.session.leave(static_cast<int>(deserted ? ExitCode::try_again : ExitCode::done),
                    mpi::Ending::abrupt);
}

void play_standby(Job& job) {
  set_log_speaker("standby");
  auto islands = gather_islands(*job.layout);
  const auto leaders = connect_leaders(job);
  link::ReplicaReceiver receiver(connect_standby(*job.layout));
  Mirror mirror(*job.setup, job.restored, job.layout->islands, job.struck);

  const auto end = StandbyProcess(receiver, mirror, job.setup->config.sync.suspect).run();
  if (end == StandbyProcess::End::concluded) {
    wait_for_world();
    leaders->close();
    receiver.close();
    job.session.leave(0, mpi::Ending::orderly);
  }
  if (end == StandbyProcess::End::concluded_after_losses) {
    job.session.leave(0, mpi::Ending::abrupt);
  }
  set_log_speaker("syncer");
  job.folder.inherit();
  link::TlsSyncerEnd outside(job.mailbox());
  link::SeveralEnds link({leaders.get(), &outside});
  // Guests had a connection with the syncer before alone; they come again.
  while (islands.size() < mirror.orders().size()) {
    link.add_absent();
    islands.emplace_back();
  }
  StandbyDoor door(job);
  const SyncerStart start{{}, islands, &mirror, 1, nullptr, validation_of(job)};
  SyncerProcess syncer(*job.setup, job.folder, link, nullptr, start, [](int) {});
  while (syncer.turn()) let_in(door.door(), outside, link, syncer);
  const int code = syncer.conclude(final_score(job, syncer));
  outside.wait_for_leaders(kGoodbyeSeconds);
  job.session.leave(code, mpi::Ending::abrupt);
}

}  // namespace archipelago::runtime
