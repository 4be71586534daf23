#include "emulate/data_parallel.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/options.h"
#include "emulate/timeline.h"
#include "runtime/global_state.h"
#include "runtime/learner_state.h"
#include "runtime/machine_settings.h"
#include "runtime/run_record.h"

namespace archipelago::emulate {
namespace {

runtime::Setup as_one_learner(const runtime::Setup& setup) {
  config::RunConfig config = setup.config;
  config.train.batch *= config.sync.learners;
  config.train.accumulate *= config.sync.learners;
  config.sync.learners = 1;
  return runtime::make_setup(config);
}

// Of a step of all learners.
double longest(const Conditions& conditions, int learners, std::vector<Random>& randoms) {
  double seconds = 0;
  for (int learner = 0; learner < learners; ++learner) {
    seconds = std::max(seconds, step_seconds_of(conditions, learner, randoms[learner]));
  }
  return seconds;
}

void save(const runtime::Setup& setup, const runtime::RunFolder& folder, const Outcome& outcome) {
  checkpoint::Global state;
  state.common.config = runtime::config_map(setup);
  state.common.tensors = setup.tensors;
  state.common.parameters = outcome.parameters;
  state.common.fragment_of_tensor = setup.fragment_of_tensor;
  state.common.versions.assign(setup.fragments.size(), 0);
  state.momentum.assign(outcome.parameters.size(), 0.0F);
  const auto learners = static_cast<std::size_t>(setup.config.sync.learners);
  state.incarnations.assign(learners, 0);
  state.merged_tokens.assign(learners * setup.fragments.size(),
                             outcome.tokens / setup.config.sync.learners);
  state.tokens = outcome.tokens;
  checkpoint::save(folder.checkpoints(), state, setup.config.checkpoint.keep);
}

}  // namespace

Outcome train_data_parallel(const runtime::Setup& setup, const data::Dataset& dataset,
                            const Conditions& conditions, const runtime::RunFolder& folder) {
  const int learners = setup.config.sync.learners;
  const runtime::Setup one = as_one_learner(setup);
  runtime::LearnerState state(one, dataset, kernels::make_cpu_kernels(setup.config.train.threads),
                              0, 0, 1);
  state.begin(0, 0, nullptr);
  state.take_lease(1, {{0, 0}});
  const runtime::GlobalState initial(one);
  for (int fragment = 0; fragment < one.fragment_count(); ++fragment) {
    state.receive(fragment, 0, *initial.theta(fragment));
  }
  std::vector<Random> randoms;
  double failure_free = 0;
  for (int learner = 0; learner < learners; ++learner) {
    randoms.push_back(random_of_island(setup.config.train.seed, learner));
    failure_free +=
        static_cast<double>(setup.batch_tokens()) / site_of(conditions, learner).step_seconds;
  }

  runtime::RunRecord record(folder);
  Outcome result;
  for (std::int64_t step = 1; step <= setup.config.train.steps; ++step) {
    result.train_loss = state.step([](std::span<float>) {}).loss;
    result.seconds += longest(conditions, learners, randoms);
    record.add_metrics({{"t", result.seconds},
                        {"learner", 0},
                        {"incarnation", 0},
                        {"step", step},
                        {"tokens", state.tokens() / learners},
                        {"loss", result.train_loss},
                        {"step_s", result.seconds / static_cast<double>(step)},
                        {"blocked_s", 0.0},
                        {"energy_j", "not available"}});
  }
  result.tokens = result.trained_tokens = state.tokens();
  result.merged_tokens = result.tokens;
  result.goodput = static_cast<double>(result.tokens) / (failure_free * result.seconds);
  result.parameters.assign(state.parameters().begin(), state.parameters().end());
  result.complete = true;
  result.reason = "all tokens are trained";
  save(setup, folder, result);
  return result;
}

}  // namespace archipelago::emulate
