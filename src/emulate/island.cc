#include "emulate/island.h"

#include <algorithm>
#include <utility>

#include "runtime/lease_message.h"
#include "runtime/step_seconds.h"

namespace archipelago::emulate {
namespace {

constexpr double kBeatsASuspicion = 4;

bool is_order(link::DownKind kind) {
  return kind == link::DownKind::assign || kind == link::DownKind::expel ||
         kind == link::DownKind::retire;
}

}  // namespace

Island::Island(Surroundings& surroundings, int site, int number)
    : around_(surroundings),
      site_(site),
      number_(number),
      random_(random_of_island(surroundings.setup.config.train.seed, number)),
      encoder_(surroundings.setup.wire, surroundings.setup.fragment_count(), 1),
      decoder_(surroundings.setup.wire, surroundings.setup.fragment_count(), 1),
      bases_(surroundings.setup.fragments.size()) {}

void Island::start() {
  turn();
  beat();
}

// ---- What comes --------------------------------------------------------------------------------

void Island::take(link::DownMessage message) {
  const link::DownHeader& header = message.header;
  if (is_order(header.kind)) {
    // What came before was meant for the life before.
    order_ = header;
    std::erase_if(arrived_,
                  [&](const auto& entry) { return !runtime::is_for(entry.second.header, header); });
    lease_.reset();
    asks_.clear();
    paused_ = false;
  } else if (header.kind == link::DownKind::lease) {
    lease_ = std::move(message);
  } else if (header.kind == link::DownKind::ask) {
    runtime::remember(asks_, header);
  } else if (header.kind == link::DownKind::pause) {
    paused_ = true;
    report_changed_ = true;
  } else if (header.kind == link::DownKind::fragment) {
    if (auto fragment = decoder_.decode(std::move(message))) {
      runtime::forget_closed(asks_, fragment->header);
      arrived_[fragment->header.fragment] = *std::move(fragment);
    }
  }
  turn_if_idle();
}

void Island::take_room() { turn_if_idle(); }

void Island::kill() {
  dead_ = true;
  state_.reset();
  around_.link.kill(number_);
}

void Island::stop(double seconds) {
  stopped_until_ = around_.timeline.in(seconds);
  if (busy_) {
    stopped_seconds_ += seconds;
  } else {
    call_turn(stopped_until_);
  }
}

void Island::slow(double factor, double seconds) {
  slow_factor_ = factor;
  slow_until_ = around_.timeline.in(seconds);
}

// ---- Turns -------------------------------------------------------------------------------------

void Island::call_turn(Nanoseconds time) {
  busy_ = true;
  around_.timeline.at(time, [this] { turn(); });
}

void Island::turn_if_idle() {
  if (!busy_ && !dead_) turn();
}

// What is done between two inner steps.
void Island::turn() {
  if (dead_) return;
  if (stopped_seconds_ > 0) {
    const double seconds = std::exchange(stopped_seconds_, 0);
    return call_turn(around_.timeline.in(seconds));
  }
  busy_ = false;
  if (step_started_) finish_step();
  if (joining_) begin();
  if (order_) follow_order();
  if (joining_) return;
  const bool plays = phase_ != link::Phase::ready;
  if (plays) {
    install();
    follow_lease();
  }
  const bool steps = plays && !paused_ && state_->can_step();
  if (report_changed_ || steps) post_report();
  if (plays) stage_asked();
  if (steps) start_step();
}

void Island::follow_order() {
  const link::DownHeader order = *std::exchange(order_, std::nullopt);
  orders_ = order.round;
  report_changed_ = true;
  if (order.kind != link::DownKind::assign) {
    phase_ = link::Phase::ready;
    return;
  }
  joining_ = order;
  const bool again = order.incarnation > 0;
  const double seconds = again ? around_.conditions.join_seconds : 0;
  call_turn(around_.timeline.in(seconds));
}

void Island::begin() {
  const link::DownHeader order = *std::exchange(joining_, std::nullopt);
  auto saved = around_.moments.newest(order.learner);
  if (!state_ || state_->learner() != order.learner) {
    state_ = std::make_unique<runtime::LearnerState>(around_.setup, around_.dataset,
                                                     around_.kernels, order.learner, 0, 1);
  }
  state_->begin(order.incarnation, order.tokens, saved ? &*saved : nullptr);
  phase_ = link::Phase::playing;
  followed_lease_ = 0;
  lease_tokens_ = 0;
  step_seconds_ = 0;
  life_steps_ = 0;
  life_started_ = around_.timeline.seconds();
  report_changed_ = true;
}

void Island::install() {
  for (auto& [number, fragment] : arrived_) {
    run_tokens_ = std::max(run_tokens_, fragment.header.tokens);
    state_->receive_encoded(number, fragment.header.version, *fragment.data);
    if (state_->needs_base()) bases_[static_cast<std::size_t>(number)] = std::move(fragment.data);
    report_changed_ = true;
  }
  arrived_.clear();
  state_->set_run_tokens(run_tokens_);
}

// What was trained until here was of the lease before.
void Island::follow_lease() {
  if (!lease_) return;
  const link::DownMessage lease = *std::exchange(lease_, std::nullopt);
  if (!is_of_this_life(lease.header) || lease.header.round <= followed_lease_) return;
  state_->take_lease(lease.header.version, runtime::leased_shards(lease));
  followed_lease_ = lease.header.round;
  lease_tokens_ = state_->tokens();
  report_changed_ = true;
}

void Island::stage_asked() {
  for (auto ask = asks_.begin(); ask != asks_.end();) {
    if (is_of_this_life(*ask)) {
      if (!around_.link.can_stage(number_)) return;
      // A learner that has just received the fragment answers after its next step.
      if (!paused_ && !state_->has_news(ask->fragment)) {
        ++ask;
        continue;
      }
      stage(*ask);
    }
    ask = asks_.erase(ask);
  }
}

void Island::stage(const link::DownHeader& ask) {
  link::FragmentHeader header = state_->header(ask.fragment, ask.round);
  state_->take_fragment(ask.fragment);
  const auto& base = bases_[static_cast<std::size_t>(ask.fragment)];
  link::Bytes buffer;
  const auto data = encoder_.encode(header, *state_->taken_fragment(), base.get(), buffer);
  around_.link.put_fragment(number_, header, {data.begin(), data.end()});
}

void Island::start_step() {
  const auto every = around_.setup.config.checkpoint.learner_steps;
  const bool due = state_->steps() > 0 && state_->steps() % every == 0;
  if (due && state_->is_sound()) around_.moments.save(*state_);
  double seconds = step_seconds_of(around_.conditions, site_, random_);
  if (around_.timeline.now() < slow_until_) seconds *= slow_factor_;
  step_started_ = around_.timeline.seconds();
  call_turn(around_.timeline.in(seconds));
}

void Island::finish_step() {
  const double seconds = around_.timeline.seconds() - *std::exchange(step_started_, std::nullopt);
  const std::int64_t before = state_->tokens();
  state_->step([](std::span<float>) {});
  around_.trained_tokens += state_->tokens() - before;
  ++life_steps_;
  step_seconds_ = runtime::recent_step_seconds(step_seconds_, seconds);
}

bool Island::is_of_this_life(const link::DownHeader& header) const {
  return header.learner == state_->learner() && header.incarnation == state_->incarnation();
}

// ---- Reports -----------------------------------------------------------------------------------

void Island::post_report() {
  report_changed_ = false;
  report_.phase = phase_ == link::Phase::playing && paused_ ? link::Phase::paused : phase_;
  report_.orders = orders_;
  if (state_) {
    state_->describe(report_);
    report_.lease = followed_lease_;
    report_.lease_tokens = lease_tokens_;
  }
  report_.step_seconds = step_seconds_;
  report_.life_steps = life_steps_;
  report_.busy_seconds = around_.timeline.seconds() - life_started_;
  around_.link.put_report(number_, report_);
  reported_ = around_.timeline.now();
}

// Long steps must not be taken for silence.
void Island::beat() {
  if (dead_) return;
  const Nanoseconds now = around_.timeline.now();
  const Nanoseconds every = to_nanoseconds(around_.setup.config.sync.suspect / kBeatsASuspicion);
  if (phase_ != link::Phase::ready && now >= stopped_until_ && now - reported_ >= every) {
    around_.link.put_report(number_, report_);
    reported_ = now;
  }
  around_.timeline.at(now + every, [this] { beat(); });
}

}  // namespace archipelago::emulate
