#include "baseline/train.h"

#include <sys/resource.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "baseline/data_parallel.h"
#include "baseline/diloco.h"
#include "baseline/learner.h"
#include "baseline/records.h"
#include "baseline/ring.h"
#include "baseline/roll.h"
#include "config/options.h"
#include "core/error.h"
#include "core/log.h"
#include "island/island.h"
#include "mpi/communicator.h"
#include "runtime/checkpoint_words.h"
#include "runtime/clock.h"
#include "runtime/job.h"
#include "runtime/run_record.h"
#include "runtime/start.h"
#include "runtime/train.h"
#include "runtime/validation.h"

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
  std::unique_ptr<Ring> ring;  // of all ranks, or of the leaders on these only
  std::unique_ptr<island::Island> island;
  std::unique_ptr<Method> method;

  void close() {
    if (ring) ring->close();
    if (island) island->close();
  }
};

Exchange make_data_parallel(const runtime::Job& job, runtime::LearnerState& state) {
  const int ranks = job.session.size();
  const auto island_of = [&](int rank) { return job.layout->island_of((rank + ranks) % ranks); };
  const int rank = job.session.rank();
  Exchange exchange;
  exchange.ring = std::make_unique<Ring>(group(every(1, ranks), kRingTag),
                                         island_of(rank + 1) != island_of(rank),
                                         island_of(rank - 1) != island_of(rank));
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
    exchange.ring = std::make_unique<Ring>(group(leaders, kRingTag), true, true);
  }
  island::Island& island = *exchange.island;
  exchange.method = std::make_unique<Diloco>(
      *job.setup, state,
      IslandCalls{[&island](std::span<float> values) { island.all_reduce_mean(values); },
                  [&island](std::span<std::byte> bytes) { island.broadcast(bytes); }},
      exchange.ring.get());
  return exchange;
}

bool save(const runtime::Job& job, checkpoint::Global state, std::int64_t rounds,
          std::int64_t tokens) {
  const auto& sync = job.setup->config.sync;
  state.common.config = config::to_map(job.setup->config);
  state.round = rounds;
  state.incarnations.assign(static_cast<std::size_t>(sync.learners), 0);
  state.merged_tokens.assign(static_cast<std::size_t>(sync.learners * job.setup->fragment_count()),
                             tokens / sync.learners);
  state.tokens = tokens;
  try {
    const double begun = runtime::now_seconds();
    checkpoint::save(job.folder.checkpoints(), state, job.setup->config.checkpoint.keep);
    log_info(runtime::words_on(
        runtime::saved_file(job.folder.checkpoints() / checkpoint::global_name(rounds),
                            runtime::now_seconds() - begun)));
  } catch (const std::system_error& error) {
    log_error(error.what());
    return false;
  }
  return true;
}

int conclude(const runtime::Job& job, const Learner& learner, const Method& method,
             Records& records) {
  checkpoint::Global state = method.result();
  Ending ending;
  ending.complete = learner.complete();
  ending.validation =
      runtime::validation_score(*job.setup, *job.dataset, state.common.parameters,
                                static_cast<int>(std::thread::hardware_concurrency()));
  ending.diverged = learner.diverged() || !std::isfinite(ending.validation.loss);
  ending.saved = ending.diverged || save(job, std::move(state), method.rounds(), records.tokens());
  return records.conclude(ending);
}

[[noreturn]] void train_to_the_end(runtime::Job& job) {
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
  // The steps yield to the exchange where they share a core.
  constexpr int kNice = 5;
  ::setpriority(PRIO_PROCESS, 0, kNice);

  std::optional<Records> records;
  if (rank == kRecorder) records.emplace(*job.setup, job.folder, std::move(islands));
  learner.train(*exchange.method, exchange.ring.get(), roll, records ? &*records : nullptr);
  int code = 0;
  if (records) code = conclude(job, learner, *exchange.method, *records);
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
