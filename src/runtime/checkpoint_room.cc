#include "runtime/checkpoint_room.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "config/options.h"
#include "core/log.h"
#include "core/units.h"
#include "runtime/run_folder.h"

namespace archipelago::runtime {
namespace {

namespace fs = std::filesystem;

// The folder, or what there is of the way to it; nothing where it has no name.
std::optional<fs::path> existing_part(const fs::path& folder) {
  std::error_code error;
  auto part = fs::absolute(folder, error);
  if (folder.empty() || error) return std::nullopt;
  while (!fs::exists(part, error) && part.has_relative_path()) part = part.parent_path();
  return part;
}

double bytes_in(const fs::path& folder) {
  double bytes = 0;
  std::error_code error;  // there may be none, and files may go meanwhile
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    std::error_code gone;
    const auto size = file->file_size(gone);
    if (!gone) bytes += static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

CheckpointBytes checkpoint_bytes(const Setup& setup) {
  constexpr std::int64_t kBytes = sizeof(float);
  CheckpointBytes bytes{.global = 2 * kBytes * setup.parameters};
  if (!config::has_syncer(setup.config)) return bytes;
  for (int learner = 0; learner < setup.config.sync.learners; ++learner) {
    const auto own = config::for_learner(setup.config, learner);
    const std::int64_t moments = own.train.optimizer == "sgd" ? 1 : 2;
    bytes.learners += (1 + moments) * kBytes * setup.parameters;
  }
  return bytes;
}

double kept_for_ever(const Setup& setup) {
  const config::Checkpoint& options = setup.config.checkpoint;
  if (options.keep_every == 0) return 0;
  const config::Sync& sync = setup.config.sync;
  const double rounds =
      static_cast<double>(setup.config.train.steps) * sync.fragments / sync.interval;
  return std::floor(rounds /
                    static_cast<double>(std::max(options.keep_every, options.global_rounds)));
}

double bytes_of_checkpoints(const Setup& setup) {
  const CheckpointBytes one = checkpoint_bytes(setup);
  const auto of_each = static_cast<double>(one.global + one.learners);
  if (!config::has_syncer(setup.config)) return of_each;
  const auto keep = static_cast<double>(setup.config.checkpoint.keep);
  // A new one is written before the oldest goes.
  return (keep + 1) * of_each + kept_for_ever(setup) * static_cast<double>(one.global);
}

std::optional<FreeRoom> free_room(const fs::path& run) {
  const auto folder = existing_part(run);
  if (!folder) return std::nullopt;
  std::error_code error;
  const auto space = fs::space(*folder, error);
  if (error) return std::nullopt;
  return FreeRoom{*folder, static_cast<double>(space.available),
                  bytes_in(RunFolder(run).checkpoints())};
}

void warn_of_little_room(const Setup& setup) {
  const double needed = bytes_of_checkpoints(setup);
  const auto room = free_room(setup.config.out);
  if (!room || room->holds(needed)) return;
  log_warning("the checkpoints will take up to " + bytes_text(needed) + ", but " +
              room->folder.string() + " has room for " + bytes_text(room->free + room->taken) +
              "; free some space, or set a smaller checkpoint.keep");
}

}  // namespace archipelago::runtime
