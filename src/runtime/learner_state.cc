#include "runtime/learner_state.h"

#include <algorithm>
#include <utility>

#include "fragment/partition.h"
#include "runtime/machine_settings.h"

namespace archipelago::runtime {

LearnerState::LearnerState(const Setup& setup, const data::Dataset& dataset, int rank, int ranks)
    : setup_(setup),
      dataset_(dataset),
      batches_(dataset.training({setup.config.model.context, setup.config.sync.learners,
                                 setup.config.train.seed, setup.config.data.shift,
                                 setup.config.data.flip})),
      rank_batch_(setup.config.train.batch / ranks),
      first_sequence_(rank * rank_batch_),
      model_(model::make_model(setup.config.model, rank_batch_, setup.config.train.threads)),
      optimizer_(setup.tensors, setup.config.train),
      held_(setup.fragments.size(), -1),
      steps_since_(setup.fragments.size(), 0),
      tokens_since_(setup.fragments.size(), 0) {}

void LearnerState::begin(int learner, int incarnation, std::int64_t tokens,
                         checkpoint::Learner* saved) {
  learner_ = learner;
  incarnation_ = incarnation;
  tokens_ = tokens;
  steps_ = tokens / setup_.batch_tokens();
  run_tokens_ = 0;
  steps_since_run_tokens_ = 0;
  std::fill(held_.begin(), held_.end(), -1);
  std::fill(steps_since_.begin(), steps_since_.end(), 0);
  std::fill(tokens_since_.begin(), tokens_since_.end(), 0);
  const auto gradients = model_->gradients();
  std::fill(gradients.begin(), gradients.end(), 0.0F);
  if (saved != nullptr) {
    optimizer_.restore(std::move(saved->adam_m), std::move(saved->adam_v), saved->adam_steps);
  } else {
    const auto first = optimizer_.first_moment();
    const auto second = optimizer_.second_moment();
    std::fill(first.begin(), first.end(), 0.0F);
    std::fill(second.begin(), second.end(), 0.0F);
    optimizer_.set_steps(0);
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
  const float loss = model_->forward_backward(load_batch());
  const auto rank_accuracy = model_->accuracy();
  float means[] = {loss, static_cast<float>(rank_accuracy.value_or(0))};
  average(model_->gradients());
  average(means);

  // The schedule follows the whole run, so a learner that was away has the others' learning rate.
  const std::int64_t step_of_run =
      run_tokens_ / (setup_.config.sync.learners * setup_.batch_tokens()) + steps_since_run_tokens_;
  optimizer_.step(model_->parameters(), model_->gradients(),
                  model::learning_rate(setup_.config.train, step_of_run));
  ++steps_;
  ++steps_since_run_tokens_;
  tokens_ += setup_.batch_tokens();
  for (auto& steps : steps_since_) ++steps;
  for (auto& tokens : tokens_since_) tokens += setup_.batch_tokens();
  return {means[0], rank_accuracy ? std::optional(means[1]) : std::nullopt};
}

model::Batch LearnerState::load_batch() {
  const std::int64_t cursor = tokens_ / setup_.config.model.context + first_sequence_;
  const data::Samples samples = batches_->load(learner_, cursor, rank_batch_);
  return {rank_batch_, samples.inputs, samples.targets, samples.images};
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
  state.cursor = tokens_ / setup_.config.model.context;
  state.adam_steps = optimizer_.steps();
  state.random_state = setup_.config.train.seed;
  state.steps_since = steps_since_;
  state.tokens_since = tokens_since_;
  return state;
}

checkpoint::LearnerArrays LearnerState::arrays() {
  return {model_->parameters(), optimizer_.first_moment(), optimizer_.second_moment()};
}

LearnerState::Memory LearnerState::memory() const {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t parameters = setup_.parameters * kFloat;
  return {parameters,
          parameters,
          2 * parameters,
          model_->activation_bytes(rank_batch_),
          2 * setup_.largest_fragment * kFloat,
          dataset_.bytes()};
}

}  // namespace archipelago::runtime
