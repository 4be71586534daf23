#include "baseline/learner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "runtime/clock.h"
#include "runtime/signals.h"

namespace archipelago::baseline {
namespace {

constexpr double kLookSeconds = 0.2;

}  // namespace

Learner::Learner(const runtime::Setup& setup, const data::Dataset& dataset,
                 const runtime::RunFolder& folder, const runtime::Layout& layout, int rank)
    : setup_(setup),
      folder_(folder),
      watches_folder_(rank == 0),
      state_(setup, dataset, kernels::make_cpu_kernels(setup.config.train.threads),
             layout.island_of(rank), rank - layout.first_rank(layout.island_of(rank)),
             layout.ranks_per_island) {
  begin_at_the_start(setup, state_);
}

void Learner::train(Method& method, const Averager* averager, Roll& roll, Records* records) {
  const auto tell = [&](const std::vector<RollEntry>& entries) {
    if (records == nullptr) return;
    records->add(entries);
    for (const RoundRow& row : method.take_rounds()) records->add(row);
  };
  started_ = runtime::now_seconds();
  bool stop = false;
  for (std::int64_t step = 1; step <= setup_.config.train.steps && !stop; ++step) {
    const bool meets = method.meets(step);
    if (meets) roll.start(entry(method, averager));
    const double began = runtime::now_seconds();
    const double blocked = method.blocked_seconds();
    method.step(step);
    notes_.note(runtime::now_seconds() - began - (method.blocked_seconds() - blocked));
    if (!meets) continue;
    const auto& entries = roll.finish();
    tell(entries);
    stop = shall_stop(entries);
  }
  method.finish();
  roll.start(entry(method, averager));
  tell(roll.finish());
  if (records != nullptr) records->end();
  if (stop && watches_folder_) std::filesystem::remove(folder_.stop());
}

// The same on every rank.
bool Learner::shall_stop(const std::vector<RollEntry>& entries) {
  const bool finite = std::ranges::any_of(entries, [](const RollEntry& entry) {
    return std::isfinite(link::sound_loss(entry.loss, entry.gradient_norm));
  });
  diverged_meetings_ = finite ? 0 : diverged_meetings_ + 1;
  return diverged() ||
         std::ranges::any_of(entries, [](const RollEntry& entry) { return entry.stop != 0; });
}

RollEntry Learner::entry(const Method& method, const Averager* averager) {
  RollEntry entry;
  notes_.fill(entry, state_);
  entry.life_steps = state_.steps();
  entry.blocked_seconds = method.blocked_seconds();
  entry.busy_seconds = runtime::now_seconds() - started_;
  if (averager != nullptr) {
    entry.bytes_sent = averager->bytes_sent();
    entry.bytes_received = averager->bytes_received();
  }
  entry.stop = asked_to_stop() ? 1 : 0;
  return entry;
}

bool Learner::asked_to_stop() {
  if (runtime::stop_signal() != 0) return true;
  const double now = runtime::now_seconds();
  if (!watches_folder_ || now < next_look_) return stop_seen_;
  next_look_ = now + kLookSeconds;
  std::error_code error;
  stop_seen_ = std::filesystem::exists(folder_.stop(), error);
  return stop_seen_;
}

}  // namespace archipelago::baseline
