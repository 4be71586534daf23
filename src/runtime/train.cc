#include "runtime/train.h"

#include <sys/resource.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/options.h"
#include "core/checksum.h"
#include "core/log.h"
#include "data/token_dataset.h"
#include "link/mpi_leader_end.h"
#include "link/mpi_pair.h"
#include "link/mpi_syncer_end.h"
#include "mpi/session.h"
#include "runtime/faults.h"
#include "runtime/island_process.h"
#include "runtime/layout.h"
#include "runtime/refill.h"
#include "runtime/run_folder.h"
#include "runtime/signals.h"
#include "runtime/start.h"
#include "runtime/syncer_process.h"
#include "runtime/validation.h"

namespace archipelago::runtime {
namespace {

// What a rank has once the start has succeeded everywhere.
struct Job {
  mpi::Session& session;
  std::optional<Layout> layout;
  std::optional<data::TokenDataset> dataset;
  std::optional<Setup> setup;
  RunFolder folder;
  std::optional<checkpoint::Global> restored;  // syncer only
  std::uint64_t digest = 0;                    // of options and data: equal on all ranks
};

void prepare(Job& job, const config::RunConfig& config) {
  job.layout = make_layout(config.sync, job.session.size());
  parse_chaos(config.chaos);
  job.dataset.emplace(config.data.path);
  job.setup = make_setup(config, job.dataset->vocabulary());
  const std::string options = config::write_ini(job.setup->config);
  job.digest = checksum(std::as_bytes(std::span(options)), job.dataset->digest());
}

void prepare_folder(Job& job) {
  const auto& config = job.setup->config;
  job.folder.open_for_writing(config.resume);
  if (config.resume) {
    job.restored = checkpoint::newest_global(job.folder.checkpoints());
    if (job.restored) {
      checkpoint::require_same_model(job.restored->common.tensors, job.setup->tensors,
                                     job.folder.checkpoints().string());
      log_info("goes on from round " + std::to_string(job.restored->round));
    }
  }
  write_file(job.folder.config(), config::write_ini(config), Durability::flushed);
}

std::vector<link::MpiPair> create_pairs(const Job& job, const link::MailboxLayout& mailbox) {
  const Layout& layout = *job.layout;
  const int rank = job.session.rank();
  std::vector<link::MpiPair> pairs;
  for (int i = 0; i < layout.islands; ++i) {
    const int leader = layout.first_rank(i);
    if (rank != Layout::kSyncer && rank != leader) continue;
    auto pair = link::MpiPair::create(Layout::kSyncer, leader, i, mailbox);
    if (!pair) {
      throw Error(ExitCode::try_again, "a rank died while the job was starting; start it again");
    }
    pairs.push_back(std::move(*pair));
  }
  return pairs;
}

link::MailboxLayout mailbox_of(const Setup& setup) {
  return {setup.fragment_count(), setup.largest_fragment};
}

[[noreturn]] void play_syncer(Job& job) {
  set_log_speaker("syncer");
  SyncerStart start{std::move(job.restored), gather_islands(*job.layout)};
  const auto mailbox = mailbox_of(*job.setup);
  link::MpiSyncerEnd link(mailbox);
  for (auto& pair : create_pairs(job, mailbox)) link.add(std::move(pair));

  Refill refill(job.setup->config, mailbox);
  SyncerProcess syncer(*job.setup, job.folder, link, start,
                       [&refill](int islands) { refill.request(islands); });
  while (syncer.turn()) {
    for (auto& island : refill.take()) {
      link.add(std::move(island.pair));
      syncer.add_island(std::move(island.members));
    }
  }
  const bool orderly = syncer.orderly();
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  const auto parameters = syncer.state().flat_parameters();
  const int code = syncer.conclude(validation_loss(*job.setup, *job.dataset, parameters, threads));
  if (orderly) {
    wait_for_world();
    link.close();
  }
  job.session.leave(code, orderly ? mpi::Ending::orderly : mpi::Ending::abrupt);
}

// Plays an island's rank to its end. `pairs`: on the leader, one with each syncer.
[[noreturn]] void play_island(Job& job, mpi::Communicator comm, std::vector<link::MpiPair> pairs) {
  island::Island island(std::move(comm));
  std::unique_ptr<Communication> communication;
  if (!pairs.empty()) {
    std::vector<std::unique_ptr<link::LeaderEnd>> ends;
    for (auto& pair : pairs) {
      ends.push_back(std::make_unique<link::MpiLeaderEnd>(std::move(pair), mailbox_of(*job.setup)));
    }
    communication = std::make_unique<Communication>(
        std::move(ends), [&island](const link::DownHeader& fault) { inflict(fault, island); });
  }
  // Computing yields to communication and to the syncer where they share a core.
  constexpr int kNice = 5;
  ::setpriority(PRIO_PROCESS, 0, kNice);

  IslandProcess process(*job.setup, *job.dataset, job.folder, island, communication.get());
  const IslandEnd end = process.run();
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
  if (lost && island.is_leader()) log_warning("the syncer is lost; the checkpoint is written");
  job.session.leave(static_cast<int>(lost ? ExitCode::try_again : ExitCode::done),
                    mpi::Ending::abrupt);
}

[[noreturn]] void play_world_island(Job& job) {
  gather_islands(*job.layout);
  const int rank = job.session.rank();
  const int number = job.layout->island_of(rank);
  set_log_speaker("island=" + std::to_string(number));
  auto pairs = create_pairs(job, mailbox_of(*job.setup));

  std::vector<int> ranks;
  for (int r = 0; r < job.layout->ranks_per_island; ++r) {
    ranks.push_back(job.layout->first_rank(number) + r);
  }
  auto comm = mpi::create_group(ranks, job.layout->islands + number);
  if (!comm) mpi::die_visibly();
  play_island(job, std::move(*comm), std::move(pairs));
}

[[noreturn]] void play_spawned_island(Job& job) {
  set_log_speaker("island=new");
  auto joined = Refill::join(job.session, mailbox_of(*job.setup));
  std::vector<link::MpiPair> pairs;
  if (joined.pair) pairs.push_back(std::move(*joined.pair));
  play_island(job, std::move(joined.island), std::move(pairs));
}

int play(mpi::Session& session, const config::RunConfig& config) {
  Job job{session, {}, {}, {}, RunFolder(config.out), {}};
  if (session.spawned()) {
    job.dataset.emplace(config.data.path);
    job.setup = make_setup(config, job.dataset->vocabulary());
    play_spawned_island(job);
  }
  if (auto code = attempt_together(session, [&] { prepare(job, config); })) return *code;
  if (auto code = attempt_together(session, [&] {
        require_same(session, job.digest, "the options or the data file " + config.data.path);
      })) {
    return *code;
  }
  if (auto code = attempt_together(session, [&] {
        if (session.rank() == Layout::kSyncer) prepare_folder(job);
      })) {
    return *code;
  }
  if (session.rank() == Layout::kSyncer) play_syncer(job);
  play_world_island(job);
}

}  // namespace

int train(const config::RunConfig& config) {
  mpi::Session session;
  catch_stop_signals();
  try {
    const int code = play(session, config);
    session.leave(code, mpi::Ending::orderly);
  } catch (const Error& error) {
    log_error(error.what());
    session.leave(static_cast<int>(error.code()), mpi::Ending::abrupt);
  } catch (const std::exception& error) {
    // Others must see this end at once, and only a kill is sure to be seen.
    log_error(std::string("internal error: ") + error.what());
    mpi::die_visibly();
  }
}

}  // namespace archipelago::runtime
