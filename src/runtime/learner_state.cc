#include "runtime/learner_state.h"

#include <algorithm>
#include <utility>

#include "config/options.h"
#include "fragment/partition.h"
#include "runtime/machine_settings.h"

namespace archipelago::runtime {

namespace {

// Nothing where the learner's data file is the run's.
std::unique_ptr<data::Dataset> open_own_data(const config::RunConfig& of_run,
                                             const config::RunConfig& of_learner) {
  if (of_learner.data.path == of_run.data.path) return nullptr;
  return data::open_dataset(of_learner.data.path);
}

}  // namespace

LearnerState::LearnerState(const Setup& setup, const data::Dataset& dataset, int learner, int rank,
                           int ranks, model::ExpertExchange* exchange)
    : setup_(setup),
      learner_(learner),
      config_(config::for_learner(setup.config, learner)),
      own_data_(open_own_data(setup.config, config_)),
      dataset_(own_data_ ? *own_data_ : dataset),
      shard_(shard_of(setup.config, learner)),
      batches_(training_batches(dataset_, config_, shard_.count)),
      batch_tokens_(config_.train.batch * config_.model.context),
      part_batch_(config_.train.batch / ranks / config_.train.accumulate),
      first_sequence_(rank * (config_.train.batch / ranks)),
      model_(model::make_model(config_.model, part_batch_, config_.train.threads, exchange)),
      optimizer_(model::make_optimizer(setup.tensors, config_.train)),
      held_(setup.fragments.size(), -1),
      steps_since_(setup.fragments.size(), 0),
      tokens_since_(setup.fragments.size(), 0) {}

void LearnerState::begin(int incarnation, std::int64_t tokens, checkpoint::Learner* saved) {
  incarnation_ = incarnation;
  tokens_ = tokens;
  steps_ = tokens / batch_tokens_;
  run_tokens_ = 0;
  steps_since_run_tokens_ = 0;
  std::fill(held_.begin(), held_.end(), -1);
  std::fill(steps_since_.begin(), steps_since_.end(), 0);
  std::fill(tokens_since_.begin(), tokens_since_.end(), 0);
  const auto gradients = model_->gradients();
  std::fill(gradients.begin(), gradients.end(), 0.0F);
  if (saved != nullptr && optimizer_->fits(saved->adam_m, saved->adam_v)) {
    optimizer_->restore(std::move(saved->adam_m), std::move(saved->adam_v), saved->adam_steps);
  } else {
    const auto first = optimizer_->first_moment();
    const auto second = optimizer_->second_moment();
    std::fill(first.begin(), first.end(), 0.0F);
    std::fill(second.begin(), second.end(), 0.0F);
    optimizer_->set_steps(0);
  }
}

void LearnerState::receive(int fragment, std::int32_t version, std::span<const float> values) {
  fragment::scatter(setup_.fragments[at(fragment)], values, model_->parameters());
  held_[at(fragment)] = version;
  steps_since_[at(fragment)] = 0;
  tokens_since_[at(fragment)] = 0;
}

bool LearnerState::holds_all() const {
  return std::none_of(held_.begin(), held_.end(), [](std::int32_t v) { return v < 0; });
}

void LearnerState::set_run_tokens(std::int64_t tokens) {
  if (tokens <= run_tokens_) return;
  run_tokens_ = tokens;
  steps_since_run_tokens_ = 0;
}

LearnerState::Step LearnerState::step(const std::function<void(std::span<float>)>& average) {
  const std::int64_t parts = config_.train.accumulate;
  double loss = 0;
  double accuracy = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const bool is_last = part + 1 == parts;
    model_->watch_gradients(is_last ? gradients_ready_ : model::GradientsReady());
    loss += static_cast<double>(model_->forward_backward(load_part(part)));
    accuracy += model_->accuracy().value_or(0);
  }
  const auto share = 1.0 / static_cast<double>(parts);
  float means[] = {static_cast<float>(share * loss), static_cast<float>(share * accuracy)};
  average(model_->gradients());
  average(means);

  // The schedule follows the whole run, so a learner that was away has the others' learning rate.
  const std::int64_t step_of_run = run_tokens_ / setup_.step_tokens + steps_since_run_tokens_;
  optimizer_->step(model_->parameters(), model_->gradients(),
                   model::learning_rate(config_.train, step_of_run));
  ++steps_;
  ++steps_since_run_tokens_;
  tokens_ += batch_tokens_;
  for (auto& steps : steps_since_) ++steps;
  for (auto& tokens : tokens_since_) tokens += batch_tokens_;
  return {means[0], model_->accuracy() ? std::optional(means[1]) : std::nullopt};
}

model::Batch LearnerState::load_part(std::int64_t part) {
  const std::int64_t cursor =
      tokens_ / config_.model.context + first_sequence_ + part * part_batch_;
  const data::Samples samples = batches_->load(shard_.index, cursor, part_batch_);
  return {part_batch_, samples.inputs, samples.targets, samples.images};
}

void LearnerState::copy_fragment(int fragment, std::span<float> values) const {
  fragment::gather(setup_.fragments[at(fragment)], model_->parameters(), values);
}

link::FragmentHeader LearnerState::header(int fragment, std::int64_t round) const {
  link::FragmentHeader header;
  header.learner = learner_;
  header.incarnation = incarnation_;
  header.round = round;
  header.fragment = fragment;
  header.base_version = held_[at(fragment)];
  header.steps = steps_since_[at(fragment)];
  header.tokens = tokens_since_[at(fragment)];
  header.at_tokens = tokens_;
  header.elements = setup_.fragments[at(fragment)].size;
  return header;
}

checkpoint::Learner LearnerState::checkpoint() const {
  checkpoint::Learner state;
  state.common.tensors = setup_.tensors;
  state.common.fragment_of_tensor = setup_.fragment_of_tensor;
  state.common.versions = held_;
  state.common.config = config_map(setup_);
  state.learner = learner_;
  state.incarnation = incarnation_;
  state.step = steps_;
  state.tokens = tokens_;
  state.cursor = tokens_ / config_.model.context;
  state.adam_steps = optimizer_->steps();
  state.random_state = config_.train.seed;
  state.steps_since = steps_since_;
  state.tokens_since = tokens_since_;
  return state;
}

checkpoint::LearnerArrays LearnerState::arrays() {
  return {model_->parameters(), optimizer_->first_moment(), optimizer_->second_moment()};
}

LearnerMemory LearnerState::memory() const {
  return learner_memory(setup_, config_, dataset_.bytes());
}

}  // namespace archipelago::runtime
