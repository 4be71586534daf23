#include "runtime/machine_settings.h"

#include <algorithm>

#include "config/options.h"
#include "data/shards.h"

namespace archipelago::runtime {
namespace {

sync::Nanoseconds nanoseconds(double seconds) {
  return static_cast<sync::Nanoseconds>(seconds * 1e9);
}

}  // namespace

sync::Settings machine_settings(const Setup& setup) {
  const auto& options = setup.config.sync;
  sync::Settings settings;
  settings.learners = options.learners;
  settings.fragments = setup.fragment_count();
  settings.interval = options.interval;
  settings.overlap = options.overlap;
  settings.quorum = options.quorum;
  settings.grace = options.grace;
  settings.grace_cap = nanoseconds(options.grace_cap);
  settings.suspect_after = nanoseconds(options.suspect);
  settings.expel_after = nanoseconds(options.expel);
  settings.outlier = options.outlier;
  settings.loss_limit = loss_limit(setup.config.model);
  settings.spares = options.spares;
  settings.batch_tokens = setup.batch_tokens();
  settings.token_budget = setup.token_budget();
  settings.sequence_tokens = setup.config.model.context;
  settings.groups = setup.data.group_of_learner;
  for (const auto& group : setup.data.groups) {
    settings.windows.push_back(group.windows);
    settings.shards.push_back(data::Shards::count_for(group.windows, std::max(group.learners, 1)));
  }
  settings.checkpoint_rounds = setup.config.checkpoint.global_rounds;
  settings.checkpoint_after =
      nanoseconds(static_cast<double>(setup.config.checkpoint.global_seconds));
  return settings;
}

sync::Restored restored_from(const std::optional<checkpoint::Global>& state) {
  if (!state) return {};
  return {state->round, state->common.versions, state->incarnations, state->merged_tokens,
          state->shards};
}

checkpoint::Global checkpoint_of(const sync::Machine& machine, const Setup& setup,
                                 std::int64_t round) {
  checkpoint::Global state;
  state.common.config = config_map(setup);
  state.round = round;
  state.tokens = machine.total_tokens();
  for (const auto& view : machine.learners()) {
    state.incarnations.push_back(view.incarnation);
    state.merged_tokens.insert(state.merged_tokens.end(), view.merged_tokens.begin(),
                               view.merged_tokens.end());
  }
  state.shards = machine.shard_cursors();
  return state;
}

std::map<std::string, std::string> config_map(const Setup& setup) {
  return config::to_map(setup.config);
}

std::string learner_state_name(sync::LearnerState state) {
  switch (state) {
    case sync::LearnerState::vacant:
    case sync::LearnerState::lost:
      return "lost";
    case sync::LearnerState::joining:
      return "joining";
    case sync::LearnerState::active:
      return "active";
    case sync::LearnerState::suspect:
      return "suspect";
    case sync::LearnerState::retired:
      return "spare";
  }
  return "lost";
}

}  // namespace archipelago::runtime
