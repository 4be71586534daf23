#include "runtime/train.h"

#include <malloc.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "mpi/session.h"
#include "runtime/job.h"
#include "runtime/lifeline.h"
#include "runtime/refusal.h"
#include "runtime/run_record.h"
#include "runtime/signals.h"

namespace archipelago::runtime {
namespace {

int play(mpi::Session& session, const config::RunConfig& config) {
  Job job{session, RunFolder(config.out), {}, {}, {}, {}};
  if (session.spawned()) {
    prepare_spawned(job, config);
    play_spawned_island(job);
  }
  if (const auto code = prepare_job(job, config)) return *code;
  if (session.rank() == Layout::kSyncer) play_syncer(job);
  if (session.rank() < job.layout->merging) play_merging_syncer(job);
  if (session.rank() < job.layout->syncers) play_standby(job);
  play_island(job);
}

int play_as_guest(mpi::Session& session, const config::RunConfig& config) {
  Job job{session, RunFolder(config.out), {}, {}, {}, {}};
  if (const auto code = prepare_guest(job, config)) return *code;
  return play_guest(job);
}

// mpirun's exit code is no verdict once a rank has died.
void write_failed_start(const RunFolder& folder, const Error& error) {
  RunRecord(folder).write_summary({{"outcome", "failed"},
                                   {"reason", error.what()},
                                   {"exit_code", static_cast<int>(error.code())}});
}

}  // namespace

void play_rank(const config::RunConfig& config, const Play& play) {
  // Buffers of fragments and checkpoints go back to the system when they are freed; glibc would
  // keep ever larger ones for later.
  constexpr int kReturnedBytes = 32 << 10;
  ::mallopt(M_MMAP_THRESHOLD, kReturnedBytes);
  ::mallopt(M_TRIM_THRESHOLD, kReturnedBytes);
  mpi::Session session;
  hold_on_to_lifeline(config.out);
  catch_stop_signals();
  // What goes wrong on this rank alone: others must see its end at once, and only a kill is sure to
  // be seen.
  try {
    const int code = play(session, config);
    leave_refusal(session.rank(), code);
    // mpirun may hang when several ranks end with an error: one says it for all.
    session.leave(session.rank() == Layout::kSyncer ? code : 0, mpi::Ending::orderly);
  } catch (const Error& error) {
    log_error(error.what());
    if (error.code() == ExitCode::try_again && session.rank() == Layout::kSyncer) {
      write_failed_start(RunFolder(config.out), error);
    }
    mpi::die_visibly();
  } catch (const std::exception& error) {
    log_error(std::string("internal error: ") + error.what());
    mpi::die_visibly();
  }
}

void train(const config::RunConfig& config) { play_rank(config, play); }

void train_as_guest(const config::RunConfig& config) { play_rank(config, play_as_guest); }

}  // namespace archipelago::runtime
