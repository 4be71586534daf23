#include "runtime/island_process.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/log.h"
#include "core/profile.h"
#include "kernels/gpu_address.h"
#include "runtime/chaos.h"
#include "runtime/clock.h"
#include "runtime/faults.h"
#include "runtime/lease_message.h"
#include "runtime/memory_table.h"
#include "runtime/signals.h"
#include "runtime/step_seconds.h"

namespace archipelago::runtime {
namespace {

constexpr double kIdleSeconds = 0.002;
constexpr double kGoodbyeSeconds = 10;  // for the last report to leave

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::unique_ptr<EnergyCounter> energy_counter(const kernels::Device& device) {
  return device.kind == kernels::Device::Kind::cuda ? gpu_energy(kernels::gpu_address(device.index))
                                                    : package_energy();
}

}  // namespace

IslandProcess::IslandProcess(const Setup& setup, const data::Dataset& dataset,
                             const RunFolder& folder, const kernels::Device& device,
                             double energy_share, island::Island& island,
                             Communication* communication)
    : setup_(setup),
      dataset_(dataset),
      folder_(folder),
      device_(device),
      island_(island),
      communication_(communication),
      memory_before_(resident_bytes()),
      energy_(energy_counter(device), energy_share),
      bases_(setup.fragments.size()) {
  if (setup_.config.profile) start_profiling();
  if (communication_ != nullptr) writer_ = std::make_unique<CheckpointWriter>();
  // GPUs compute all experts on each rank.
  const bool on_host = device_.kind == kernels::Device::Kind::cpu;
  if (island_.size() > 1 && on_host) exchange_.emplace(island_);
}

IslandProcess::~IslandProcess() {
  if (!setup_.config.profile) return;
  const std::string summary = profile_summary();
  if (!summary.empty()) log_info("profile: " + summary);  // a spare that never trained has none
}

IslandEnd IslandProcess::run() {
  for (;;) {
    Plan plan;
    if (communication_ != nullptr) plan = decide();
    share(plan);
    receive_fragments(plan);
    receive_lease(plan);
    switch (plan.command) {
      case Command::wait:
        if (communication_ != nullptr) post_report();
        break;
      case Command::begin:
        begin(plan);
        break;
      case Command::rest:
        rest();
        break;
      case Command::step:
        step();
        break;
      case Command::finish:
        finish();
        share(plan);
        return plan.orderly != 0 ? IslandEnd::finished : IslandEnd::finished_after_losses;
      case Command::abandon:
      case Command::leave:
        if (communication_ != nullptr && state_ && phase_ != link::Phase::ready) save_checkpoint();
        if (plan.command == Command::abandon) return IslandEnd::syncer_lost;
        if (communication_ != nullptr) say_last(link::Phase::leaving);
        return IslandEnd::left;
    }
  }
}

IslandProcess::Plan IslandProcess::decide() {
  for (;;) {
    boundary_started_ = now_seconds();
    Inbox inbox = communication_->take();
    Plan plan;
    plan.command = choose(inbox);
    for (auto& [number, fragment] : inbox.fragments) {
      run_tokens_ = std::max(run_tokens_, fragment.header.tokens);
      forget_closed(asks_, fragment.header);
      arrived_.push_back(std::move(fragment));
    }
    if (inbox.lease) lease_ = std::move(inbox.lease);
    for (auto ask = inbox.asks.rbegin(); ask != inbox.asks.rend(); ++ask) remember(asks_, *ask);
    remember_faults(inbox.faults);
    if (is_new_order(inbox)) {
      plan.learner = inbox.order->learner;
      plan.incarnation = inbox.order->incarnation;
      plan.tokens = inbox.order->tokens;
      orders_ = inbox.order->round;
    }
    if (inbox.finish) plan.orderly = inbox.finish->orderly;
    plan.run_tokens = run_tokens_;
    // Fragments and the lease for a life that begins only now stay here until the model has been
    // made.
    if (plan.command != Command::begin && phase_ != link::Phase::ready) {
      plan.fragments = static_cast<std::int32_t>(arrived_.size());
      plan.leases = lease_ ? 1 : 0;
    }
    const bool something_to_do =
        plan.command != Command::wait || plan.fragments > 0 || plan.leases > 0;
    if (something_to_do) return plan;
    if (phase_ != link::Phase::ready) {
      stage_asked();
      return plan;
    }
    post_report();
    island_.check_members();
    sleep_seconds(kIdleSeconds);
  }
}

IslandProcess::Command IslandProcess::choose(const Inbox& inbox) {
  if (inbox.syncer_lost) return Command::abandon;
  if (heeds_signals_ && stop_signal() != 0) return Command::leave;
  if (inbox.finish) return Command::finish;
  if (inbox.pause) paused_ = true;
  if (is_new_order(inbox)) {
    std::erase_if(arrived_,
                  [&](const auto& fragment) { return !is_for(fragment.header, *inbox.order); });
    lease_.reset();
    asks_.clear();
    paused_ = inbox.pause;
    return inbox.order->kind == link::DownKind::assign ? Command::begin : Command::rest;
  }
  if (phase_ == link::Phase::ready || paused_ || !state_->can_step()) return Command::wait;
  return Command::step;
}

// A syncer that took over repeats an order that may have been followed already.
bool IslandProcess::is_new_order(const Inbox& inbox) const {
  return inbox.order && inbox.order->round > orders_;
}

void IslandProcess::share(Plan& plan) {
  island_.broadcast(bytes_of(plan));
  if (plan.command == Command::wait && phase_ != link::Phase::ready && plan.fragments == 0) {
    sleep_seconds(kIdleSeconds);
  }
}

void IslandProcess::receive_fragments(const Plan& plan) {
  if (plan.fragments == 0) return;
  if (communication_ == nullptr) arrived_.resize(static_cast<std::size_t>(plan.fragments));
  for (auto& [header, data] : arrived_) {
    island_.broadcast(bytes_of(header));
    if (data == nullptr) {
      data = std::make_shared<link::Bytes>(static_cast<std::size_t>(header.bytes));
    }
    island_.broadcast(*data);
    state_->receive_encoded(header.fragment, header.version, *data);
    if (communication_ == nullptr || !state_->needs_base()) continue;
    bases_[static_cast<std::size_t>(header.fragment)] = std::move(data);
  }
  arrived_.clear();
  state_->set_run_tokens(plan.run_tokens);
  report_changed_ = true;
}

// At a step boundary: what was trained until here was of the lease before.
void IslandProcess::receive_lease(const Plan& plan) {
  if (plan.leases == 0) return;
  link::DownMessage lease;
  if (lease_) lease = *std::exchange(lease_, std::nullopt);
  island_.broadcast(bytes_of(lease.header));
  lease.data.resize(static_cast<std::size_t>(lease.header.bytes));
  island_.broadcast(lease.data);
  const bool meant = is_of_this_life(lease.header.learner, lease.header.incarnation) &&
                     lease.header.round > followed_lease_;
  if (!meant) return;
  state_->take_lease(lease.header.version, leased_shards(lease));
  followed_lease_ = lease.header.round;
  lease_tokens_ = state_->tokens();
  report_changed_ = true;
}

// Of this learner's own last checkpoint, else of the newest of any other.
std::optional<checkpoint::Learner> IslandProcess::saved_moments(int learner) const {
  auto saved = checkpoint::newest_learner(folder_.checkpoints(), learner);
  if (!saved) saved = checkpoint::newest_learner(folder_.checkpoints(), -1);
  if (saved) saved->common.parameters = {};
  return saved;
}

void IslandProcess::begin(const Plan& plan) {
  if (writer_) writer_->finish();
  // Read before the model is made, and without the parameters, so that there is never more in
  // memory than while training.
  auto saved = saved_moments(plan.learner);
  if (kernels_ == nullptr) {
    kernels_ = kernels::make_kernels(device_);
    averaging_ = island::make_averaging(island_, *kernels_);
  }
  if (!state_ || state_->learner() != plan.learner) {
    leaving_.reset();
    state_.reset();
    state_ =
        std::make_unique<LearnerState>(setup_, dataset_, kernels_, plan.learner, island_.rank(),
                                       island_.size(), exchange_ ? &*exchange_ : nullptr);
    state_->watch_gradients([this](std::int64_t from) {
      averaging_->ready(state_->gradients().subspan(static_cast<std::size_t>(from)));
    });
  }
  state_->begin(plan.incarnation, plan.tokens, saved ? &*saved : nullptr);
  phase_ = link::Phase::playing;
  followed_lease_ = 0;
  step_seconds_ = 0;
  blocked_seconds_ = 0;
  joules_ = 0;
  energy_.take(now_seconds());
  life_steps_ = 0;
  life_started_ = 0;
  set_log_speaker("learner=" + std::to_string(plan.learner) +
                  " rank=" + std::to_string(island_.rank()));
  if (communication_ == nullptr) return;
  log_info("life " + std::to_string(plan.incarnation) + " begins at token " +
           std::to_string(plan.tokens) + ", moments " +
           (saved ? "of learner " + std::to_string(saved->learner) + "'s checkpoint at step " +
                        std::to_string(saved->step)
                  : std::string("new")));
  report_changed_ = true;
  post_report();
}

void IslandProcess::rest() {
  if (communication_ != nullptr && state_ && phase_ != link::Phase::ready) {
    log_info("leaves its place and becomes a spare");
  }
  phase_ = link::Phase::ready;
  report_changed_ = true;
  if (communication_ != nullptr) post_report();
}

void IslandProcess::step() {
  if (communication_ != nullptr) {
    if (life_started_ == 0) {
      life_started_ = boundary_started_;
      tell_memory();
    }
    {
      const ProfileRange range("fragments and reports");
      stage_asked();
      post_report();
    }
    blocked_seconds_ += now_seconds() - boundary_started_;
    checkpoint_if_due();
  }
  const double started = now_seconds();
  state_->step([this](std::span<float> numbers) {
    if (numbers.data() == state_->gradients().data()) {
      averaging_->finish(numbers);
    } else {
      island_.all_reduce_mean(numbers);
    }
  });
  auto joules = static_cast<float>(energy_.take(now_seconds()));
  island_.all_reduce_mean(std::span(&joules, 1));
  joules_ += static_cast<double>(joules) * island_.size();
  double seconds = now_seconds() - started;
  if (started < slow_until_) {
    sleep_seconds(seconds * (slow_factor_ - 1));
    seconds = now_seconds() - started;
  }
  ++life_steps_;
  step_seconds_ = recent_step_seconds(step_seconds_, seconds);
  report_changed_ = true;
}

void IslandProcess::say_last(link::Phase phase) {
  phase_ = phase;
  report_changed_ = true;
  post_report();
  communication_->flush(kGoodbyeSeconds);
}

void IslandProcess::finish() {
  if (communication_ == nullptr) return;
  if (phase_ != link::Phase::ready) save_checkpoint();
  say_last(link::Phase::finished);
  // The launcher may end the whole job when the first process goes: the syncer has to be done
  // first.
  for (Inbox inbox; !inbox.leave && !inbox.syncer_lost; inbox = communication_->take()) {
    sleep_seconds(kIdleSeconds);
  }
}

// A fragment is taken at a boundary and staged when it is in the host's memory: at once, or from a
// GPU at a later boundary.
void IslandProcess::stage_asked() {
  auto ask = asks_.begin();
  while (stage_leaving() && ask != asks_.end()) {
    if (is_of_this_life(ask->learner, ask->incarnation)) {
      if (!communication_->can_stage()) return;
      // A learner that has just received the fragment answers after its next step.
      if (!paused_ && !state_->has_news(ask->fragment)) {
        ++ask;
        continue;
      }
      leaving_ = state_->header(ask->fragment, ask->round);
      state_->take_fragment(ask->fragment);
      leaving_base_ = bases_[static_cast<std::size_t>(ask->fragment)];
    }
    ask = asks_.erase(ask);
  }
}

bool IslandProcess::is_of_this_life(int learner, int incarnation) const {
  return learner == state_->learner() && incarnation == state_->incarnation();
}

// Whether the next fragment can be taken.
bool IslandProcess::stage_leaving() {
  if (!leaving_) return true;
  auto values = state_->taken_fragment();
  if (values == nullptr) return false;
  if (is_of_this_life(leaving_->learner, leaving_->incarnation)) {
    communication_->stage(*leaving_, std::move(values), std::move(leaving_base_));
  }
  leaving_.reset();
  return true;
}

void IslandProcess::remember_faults(const std::vector<link::DownHeader>& faults) {
  for (const auto& fault : faults) {
    if (fault.moment == static_cast<std::int32_t>(Moment::checkpoint)) {
      checkpoint_fault_ = fault;
      continue;
    }
    slow_factor_ = fault.factor;
    slow_until_ = now_seconds() + fault.seconds;
    log_warning("slowed " + std::to_string(fault.factor) + " times by the chaos plan");
  }
}

void IslandProcess::post_report() {
  const bool waiting_learner = phase_ == link::Phase::playing && life_started_ == 0;
  if (!report_changed_ && !waiting_learner) return;
  report_changed_ = false;
  link::Report report;
  report.phase = phase_ == link::Phase::playing && paused_ ? link::Phase::paused : phase_;
  report.orders = orders_;
  if (state_) {
    state_->describe(report);
    report.lease = followed_lease_;
    report.lease_tokens = lease_tokens_;
  }
  report.step_seconds = step_seconds_;
  report.life_steps = life_steps_;
  report.blocked_seconds = blocked_seconds_;
  report.joules = joules_;
  report.busy_seconds = life_started_ == 0 ? 0 : now_seconds() - life_started_;
  report.resident_bytes = resident_bytes();
  if (state_ && device_.kind == kernels::Device::Kind::cpu) {
    report.memory_ratio = memory_ratio(state_->memory(), memory_before_, report.resident_bytes);
  }
  communication_->post(report);
}

void IslandProcess::checkpoint_if_due() {
  const auto every = setup_.config.checkpoint.learner_steps;
  const bool due = every > 0 && state_->steps() > 0 && state_->steps() % every == 0;
  if (!due || !state_->is_sound() || writer_->busy()) return;
  start_checkpoint();
}

// What is written is copied now, between two steps; the disk is waited for elsewhere.
void IslandProcess::start_checkpoint() {
  const std::string what = "the checkpoint of learner " + std::to_string(state_->learner());
  try {
    std::vector<float> room;
    auto file = std::make_shared<checkpoint::LearnerFile>(
        folder_.checkpoints(), state_->checkpoint(), state_->arrays(room));
    const auto fault = std::exchange(checkpoint_fault_, std::nullopt);
    writer_->start(what, [this, file, fault, keep = setup_.config.checkpoint.keep] {
      if (fault) inflict(*fault, island_);
      file->write(keep);
    });
  } catch (const std::exception& error) {
    log_warning("could not write " + what + "; training goes on: " + error.what());
  }
}

void IslandProcess::save_checkpoint() {
  writer_->finish();
  if (!state_->holds_all() || !state_->is_sound()) return;  // nothing of its own worth it
  start_checkpoint();
  writer_->finish();
}

// All learners', as a rule, look alike.
void IslandProcess::tell_memory() {
  const bool is_first = state_->learner() == 0 && !std::exchange(memory_told_, true);
  if (!is_first && !setup_.config.profile) return;
  log_info(memory_table(state_->memory(), memory_before_, resident_bytes()));
}

}  // namespace archipelago::runtime
