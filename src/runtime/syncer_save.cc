#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/log.h"
#include "core/units.h"
#include "runtime/clock.h"
#include "runtime/machine_settings.h"
#include "runtime/record_lines.h"
#include "runtime/syncer_process.h"

namespace archipelago::runtime {

void SyncerProcess::act(const sync::SaveGlobal& action) {
  auto file = std::make_shared<checkpoint::Global>(checkpoint_of(machine_, setup_, action.round));
  if (others_ == nullptr) {
    save(file, state_);
  } else {
    cuts_.save_newest(action.round, std::move(file));
  }
}

void SyncerProcess::save(const std::shared_ptr<checkpoint::Global>& file,
                         const GlobalState& state) {
  record_.add_event(snapshot_line(elapsed_ns(), file->round, state.digest()));
  const auto write = [this, file, state, &options = setup_.config.checkpoint] {
    const double begun = now_seconds();
    state.describe(*file);
    record_.flush();  // the run goes on from this file: the tape must not end before it
    checkpoint::save(folder_.checkpoints(), *file, state.arrays(), options.keep,
                     options.keep_every);
    auto saved = saved_file(folder_.checkpoints() / checkpoint::global_name(file->round),
                            now_seconds() - begun);
    const std::lock_guard lock(saved_mutex_);
    saved_.push_back(std::move(saved));
  };
  if (!machine_.finished()) validator_.start(file->round, file->tokens, state);
  WaitingSave save{"the global checkpoint of round " + std::to_string(file->round), write};
  if (machine_.finished()) {
    // The last one; whatever waits goes before it.
    writer_.finish();
    start_waiting_save();
    writer_.finish();
  }
  waiting_save_ = std::move(save);  // where the disk is slower than the rounds, the newest waits
  start_waiting_save();
}

void SyncerProcess::note_validation(double patience) {
  const auto result = validator_.take(patience);
  if (!result || result->score.samples == 0) return;
  record_.add_metrics(validation_row(elapsed(), *result));
  log_info("validation loss " + loss_text(result->score.loss) + " after round " +
           std::to_string(result->round));
}

void SyncerProcess::start_waiting_save() {
  if (!waiting_save_ || writer_.busy()) return;
  writer_.start(std::move(waiting_save_->what), std::move(waiting_save_->write));
  waiting_save_.reset();
}

void SyncerProcess::note_saved() {
  const std::lock_guard lock(saved_mutex_);
  for (const SavedFile& file : saved_) {
    log_info(words_on(file));
    record_.add_metrics({{"t", elapsed()},
                         {"checkpoint", file.path.filename().string()},
                         {"bytes", file.bytes},
                         {"seconds", file.seconds}});
  }
  saved_.clear();
}

}  // namespace archipelago::runtime
