#include "runtime/learner_state.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "config/options.h"
#include "core/error.h"
#include "core/profile.h"
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

LearnerState::LearnerState(const Setup& setup, const data::Dataset& dataset,
                           std::shared_ptr<kernels::Kernels> kernels, int learner, int rank,
                           int ranks, model::ExpertExchange* exchange)
    : setup_(setup),
      learner_(learner),
      config_(config::for_learner(setup.config, learner)),
      own_data_(open_own_data(setup.config, config_)),
      dataset_(own_data_ ? *own_data_ : dataset),
      batch_tokens_(config_.train.batch * config_.model.context),
      part_batch_(config_.train.batch / ranks / config_.train.accumulate),
      first_sequence_(rank * (config_.train.batch / ranks)),
      kernels_(std::move(kernels)),
      mover_(kernels_->make_mover(
          rank == 0 && setup.wire.differences() ? std::optional(setup.wire.up) : std::nullopt)),
      model_(model::make_model(config_.model, part_batch_, kernels_, exchange)),
      optimizer_(model::make_optimizer(setup.tensors, config_.train, *kernels_)),
      held_(setup.fragments.size(), -1),
      steps_since_(setup.fragments.size(), 0),
      highest_loss_since_(setup.fragments.size(), 0),
      tokens_since_(setup.fragments.size(), 0) {}

void LearnerState::begin(int incarnation, std::int64_t tokens, checkpoint::Learner* saved) {
  incarnation_ = incarnation;
  tokens_ = tokens;
  steps_ = tokens / batch_tokens_;
  leased_.clear();
  has_sound_loss_ = true;
  last_step_ = {};
  run_tokens_ = 0;
  steps_since_run_tokens_ = 0;
  std::fill(held_.begin(), held_.end(), -1);
  std::fill(steps_since_.begin(), steps_since_.end(), 0);
  std::fill(highest_loss_since_.begin(), highest_loss_since_.end(), 0);
  std::fill(tokens_since_.begin(), tokens_since_.end(), 0);
  mover_->forget_residuals();
  kernels_->clear(model_->gradients().data(), setup_.parameters);
  if (saved != nullptr && optimizer_->fits(saved->adam_m, saved->adam_v)) {
    optimizer_->restore(std::move(saved->adam_m), std::move(saved->adam_v), saved->adam_steps);
  } else {
    optimizer_->reset();
  }
}

void LearnerState::take_lease(int shards, const std::vector<data::ShardCursor>& leased) {
  if (shards_ != shards) {
    batches_ = training_batches(dataset_, config_, shards);
    shards_ = shards;
  }
  const auto before = std::exchange(leased_, leased);
  data::carry_over(leased_, before);
}

void LearnerState::take_fixed_share() {
  const auto& groups = setup_.data.group_of_learner;
  const int group = groups.at(static_cast<std::size_t>(learner_));
  const auto before = std::count(groups.begin(), groups.begin() + learner_, group);
  take_lease(setup_.data.groups.at(static_cast<std::size_t>(group)).learners,
             {{static_cast<int>(before), tokens_ / config_.model.context}});
}

void LearnerState::receive_encoded(int fragment, std::int32_t version,
                                   std::span<const std::byte> data) {
  const std::int64_t elements = setup_.fragments[at(fragment)].size;
  if (std::ssize(data) != fragment::encoded_size(setup_.wire.whole(), elements)) {
    throw Error(ExitCode::internal, "the data of fragment " + std::to_string(fragment) + " has " +
                                        std::to_string(data.size()) + " bytes");
  }
  put(fragment, version, setup_.wire.whole(), data);
}

void LearnerState::receive(int fragment, std::int32_t version, std::span<const float> values) {
  put(fragment, version, fragment::Encoding::f32, std::as_bytes(values));
}

void LearnerState::put(int fragment, std::int32_t version, fragment::Encoding encoding,
                       std::span<const std::byte> data) {
  mover_->put(fragment, model_->parameters().data(), setup_.ranges[at(fragment)], encoding, data);
  held_[at(fragment)] = version;
  steps_since_[at(fragment)] = 0;
  highest_loss_since_[at(fragment)] = 0;
  tokens_since_[at(fragment)] = 0;
}

void LearnerState::restart(int shards, const std::vector<data::ShardCursor>& leased) {
  kernels_->clear(model_->gradients().data(), setup_.parameters);
  leased_.clear();
  take_lease(shards, leased);
}

bool LearnerState::holds_all() const {
  return std::none_of(held_.begin(), held_.end(), [](std::int32_t v) { return v < 0; });
}

void LearnerState::set_run_tokens(std::int64_t tokens) {
  if (tokens <= run_tokens_) return;
  run_tokens_ = tokens;
  steps_since_run_tokens_ = 0;
}

void LearnerState::describe(link::Report& report) const {
  report.learner = learner_;
  report.incarnation = incarnation_;
  report.step = steps_;
  report.tokens = tokens_;
  report.loss = last_step_.loss;
  report.accuracy = last_step_.accuracy.value_or(-1);
  report.learning_rate = last_step_.learning_rate;
  report.gradient_norm = last_step_.gradient_norm;
  report.held = held_;
}

void LearnerState::step(const std::function<void(std::span<float>)>& average) {
  choose_batch();
  const std::int64_t parts = config_.train.accumulate;
  double loss = 0;
  double accuracy = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const bool is_last = part + 1 == parts;
    model_->watch_gradients(is_last ? gradients_ready_ : model::GradientsReady());
    const model::Batch batch = load_part(part);
    const ProfileRange range("forward and backward");
    loss += static_cast<double>(model_->forward_backward(batch));
    accuracy += model_->accuracy().value_or(0);
  }
  const auto share = 1.0 / static_cast<double>(parts);
  float means[] = {static_cast<float>(share * loss), static_cast<float>(share * accuracy)};
  {
    const ProfileRange range("averaging");
    average(model_->gradients());
    average(means);
  }

  // The schedule follows the whole run, so a learner that was away has the others' learning rate.
  const std::int64_t step_of_run = run_tokens_ / setup_.step_tokens + steps_since_run_tokens_;
  const ProfileRange range("optimizer");
  // Moments that made it diverge would do so again from any parameters.
  const bool has_sound_loss = std::isfinite(means[0]) && means[0] <= loss_limit(config_.model);
  if (std::exchange(has_sound_loss_, has_sound_loss) != has_sound_loss) optimizer_->reset();
  last_step_.loss = means[0];
  if (model_->accuracy()) last_step_.accuracy = means[1];
  last_step_.learning_rate = model::learning_rate(config_.train, step_of_run, optimizer_->steps());
  last_step_.gradient_norm =
      optimizer_->step(model_->parameters(), model_->gradients(), last_step_.learning_rate);
  ++steps_;
  ++steps_since_run_tokens_;
  tokens_ += batch_tokens_;
  for (auto& steps : steps_since_) ++steps;
  const double told = link::sound_loss(last_step_.loss, last_step_.gradient_norm);
  for (auto& highest : highest_loss_since_) {
    if (told > highest || std::isnan(told)) highest = told;
  }
  for (auto& tokens : tokens_since_) tokens += batch_tokens_;
}

// All ranks of an island go through the whole batch; each trains on its part of it.
void LearnerState::choose_batch() {
  batch_.clear();
  const data::Shards order(dataset_.samples(config_.model.context), shards_);
  for (std::int64_t sequence = 0; sequence < config_.train.batch; ++sequence) {
    data::ShardCursor& at = leased_[order.next(leased_)];
    batch_.push_back(at);
    ++at.cursor;
  }
}

model::Batch LearnerState::load_part(std::int64_t part) {
  const ProfileRange range("loading data");
  const auto first = static_cast<std::size_t>(first_sequence_ + part * part_batch_);
  const data::Samples samples =
      batches_->load(std::span(batch_).subspan(first, static_cast<std::size_t>(part_batch_)));
  return {part_batch_, samples.inputs, samples.targets, samples.images};
}

void LearnerState::copy_fragment(int fragment, std::span<float> values) const {
  fragment::gather(setup_.fragments[at(fragment)], model_->parameters(), values);
}

void LearnerState::take_fragment(int fragment) {
  // What goes up as it is, no other pass will go over.
  mover_->take(fragment, model_->parameters().data(), setup_.ranges[at(fragment)],
               !setup_.wire.differences());
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
  header.loss = highest_loss_since_[at(fragment)];
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

checkpoint::LearnerArrays LearnerState::arrays(std::vector<float>& room) {
  checkpoint::LearnerArrays arrays{model_->parameters(), optimizer_->first_moment(),
                                   optimizer_->second_moment()};
  if (kernels_->on_host()) return arrays;
  room.resize(arrays.parameters.size() + arrays.adam_m.size() + arrays.adam_v.size());
  std::span<float> free = room;
  for (auto* array : {&arrays.parameters, &arrays.adam_m, &arrays.adam_v}) {
    const auto copy = free.first(array->size());
    kernels_->copy_out(copy.data(), array->data(), static_cast<std::int64_t>(copy.size_bytes()));
    free = free.subspan(copy.size());
    *array = copy;
  }
  return arrays;
}

LearnerMemory LearnerState::memory() const {
  LearnerMemory memory = learner_memory(setup_, config_, dataset_.bytes());
  if (!kernels_->on_host()) {
    memory.parameters = memory.gradients = memory.moments = memory.activations = 0;
    memory.exchange = 0;
  }
  return memory;
}

}  // namespace archipelago::runtime
