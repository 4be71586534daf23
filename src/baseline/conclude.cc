#include "baseline/conclude.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <thread>

#include "config/options.h"
#include "core/log.h"
#include "runtime/checkpoint_words.h"
#include "runtime/clock.h"
#include "runtime/validation.h"

namespace archipelago::baseline {
namespace {

// Fills in what `state` still lacks.
bool save(const runtime::Job& job, checkpoint::Global& state, std::int64_t rounds,
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

}  // namespace

checkpoint::Global state_of(const runtime::Setup& setup, std::span<const float> parameters) {
  checkpoint::Global state;
  state.common.tensors = setup.tensors;
  state.common.parameters.assign(parameters.begin(), parameters.end());
  state.common.fragment_of_tensor = setup.fragment_of_tensor;
  state.common.versions.assign(setup.fragments.size(), 0);
  state.momentum.assign(parameters.size(), 0.0F);
  return state;
}

int conclude(const runtime::Job& job, checkpoint::Global state, const Trained& trained,
             Records& records) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  Ending ending;
  ending.complete = trained.complete;
  ending.diverged = trained.diverged || !std::ranges::all_of(state.common.parameters, is_finite);
  // Before the validation, which may take long: whoever asked the run to end may not wait for it.
  ending.saved = ending.diverged || save(job, state, trained.rounds, records.tokens());
  ending.validation =
      runtime::validation_score(*job.setup, *job.dataset, state.common.parameters,
                                static_cast<int>(std::thread::hardware_concurrency()));
  ending.diverged = ending.diverged || !std::isfinite(ending.validation.loss);
  return records.conclude(ending);
}

}  // namespace archipelago::baseline
