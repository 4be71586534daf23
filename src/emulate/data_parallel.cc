#include "emulate/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "config/options.h"
#include "core/log.h"
#include "emulate/outside.h"
#include "emulate/timeline.h"
#include "runtime/global_state.h"
#include "runtime/learner_state.h"
#include "runtime/machine_settings.h"
#include "runtime/record_lines.h"

namespace archipelago::emulate {
namespace {

constexpr double kNotAvailable = std::numeric_limits<double>::quiet_NaN();

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

// Its model goes nowhere any more; src/baseline counts alike.
constexpr int kDivergedSteps = 10;

class Training {
 public:
  Training(const runtime::Setup& setup, const data::Dataset& dataset, const Conditions& conditions)
      : setup_(setup),
        conditions_(conditions),
        one_(as_one_learner(setup)),
        state_(one_, dataset, kernels::make_cpu_kernels(setup.config.train.threads), 0, 0, 1) {
    state_.begin(0, 0, nullptr);
    state_.take_lease(1, {{0, 0}});
    const runtime::GlobalState initial(one_);
    for (int fragment = 0; fragment < one_.fragment_count(); ++fragment) {
      state_.receive(fragment, 0, *initial.theta(fragment));
    }
    for (int learner = 0; learner < setup.config.sync.learners; ++learner) {
      randoms_.push_back(random_of_island(setup.config.train.seed, learner));
    }
    result_.reason = "all tokens are trained";
  }

  bool over() const {
    return steps_ == setup_.config.train.steps || result_.end != sync::Outcome::complete;
  }

  void step() {
    ++steps_;
    state_.step([](std::span<float>) {});
    const auto& step = state_.last_step();
    result_.train_loss = step.loss;
    result_.tokens = state_.tokens();
    result_.seconds += longest(conditions_, setup_.config.sync.learners, randoms_);
    diverged_steps_ =
        std::isfinite(link::sound_loss(step.loss, step.gradient_norm)) ? 0 : diverged_steps_ + 1;
    if (diverged_steps_ == kDivergedSteps) {
      end(sync::Outcome::diverged, "the loss or its gradients are not finite any more");
    }
  }

  void end(sync::Outcome how, const std::string& reason) {
    result_.end = how;
    result_.reason = reason;
  }

  nlohmann::json row() const {
    link::Report report;
    state_.describe(report);
    report.tokens /= setup_.config.sync.learners;
    report.step_seconds = result_.seconds / static_cast<double>(steps_);
    return runtime::step_row(result_.seconds, report, 0, kNotAvailable);
  }

  nlohmann::json status(const std::string& state, const std::string& of_learners) const {
    nlohmann::json learners = nlohmann::json::array();
    sync::LearnerView view;
    view.incarnation = 0;
    view.step = steps_;
    view.tokens = result_.tokens / setup_.config.sync.learners;
    for (int id = 0; id < setup_.config.sync.learners; ++id) {
      learners.push_back(runtime::learner_entry(id, view));
      learners.back()["state"] = of_learners;
    }
    return emulated_status(state, result_.seconds, result_.tokens, setup_.token_budget(),
                           std::move(learners));
  }

  Outcome outcome() const {
    Outcome result = result_;
    result.merged_tokens = result.trained_tokens = result.tokens;
    const double possible = failure_free_rate(setup_.config, conditions_) * result.seconds;
    result.goodput = possible > 0 ? static_cast<double>(result.tokens) / possible : 0;
    result.parameters.assign(state_.parameters().begin(), state_.parameters().end());
    result.status = status("", "ended");
    return result;
  }

 private:
  const runtime::Setup& setup_;
  const Conditions& conditions_;
  runtime::Setup one_;
  runtime::LearnerState state_;
  std::vector<Random> randoms_;
  Outcome result_;
  std::int64_t steps_ = 0;
  int diverged_steps_ = 0;
};

}  // namespace

Outcome train_data_parallel(const runtime::Setup& setup, const data::Dataset& dataset,
                            const Conditions& conditions, const runtime::RunFolder& folder,
                            runtime::RunRecord& record) {
  Training training(setup, dataset, conditions);
  Outside outside(folder, record);
  while (!training.over()) {
    if (const auto who = outside.turn([&] { return training.status("training", "active"); })) {
      log_info("ends early: " + *who);
      training.end(sync::Outcome::stopped, *who);
      break;
    }
    training.step();
    record.add_metrics(training.row());
  }
  Outcome outcome = training.outcome();
  if (outcome.end == sync::Outcome::diverged) return outcome;
  try {
    save(setup, folder, outcome);
  } catch (const std::system_error& error) {
    log_error(error.what());
    outcome.unsaved = true;
  }
  return outcome;
}

}  // namespace archipelago::emulate
