#include "runtime/train.h"

#include <exception>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "mpi/session.h"
#include "runtime/job.h"
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
  if (session.rank() <= job.layout->standbys) play_standby(job);
  play_island(job);
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
