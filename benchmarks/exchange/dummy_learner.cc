#include "dummy_learner.h"

#include <algorithm>
#include <utility>

#include "fragment/partition.h"
#include "runtime/clock.h"
#include "runtime/memory_table.h"

namespace archipelago::bench {
namespace {

constexpr double kIdleSeconds = 0.002;
constexpr double kGoodbyeSeconds = 60;

}  // namespace

DummyLearner::DummyLearner(const runtime::Setup& setup, runtime::Communication& communication,
                           double step_seconds)
    : setup_(setup),
      communication_(communication),
      step_seconds_(step_seconds),
      parameters_(static_cast<std::size_t>(setup.parameters)),
      bases_(setup.fragments.size()),
      held_(setup.fragments.size(), -1),
      steps_since_(setup.fragments.size(), 0) {
  report(link::Phase::ready);
}

bool DummyLearner::run() {
  for (;;) {
    const double boundary = runtime::now_seconds();
    runtime::Inbox inbox = communication_.take();
    if (inbox.syncer_lost) return false;
    if (inbox.order) begin(*inbox.order);
    for (const auto& [number, fragment] : inbox.fragments) receive(fragment);
    for (auto ask = inbox.asks.rbegin(); ask != inbox.asks.rend(); ++ask) {
      runtime::remember(asks_, *ask);
    }
    paused_ = paused_ || inbox.pause;
    if (inbox.finish) break;
    if (order_.learner < 0 || !holds_all()) {
      runtime::sleep_seconds(kIdleSeconds);
      continue;
    }
    answer();
    report(paused_ ? link::Phase::paused : link::Phase::playing);
    if (paused_) {
      runtime::sleep_seconds(kIdleSeconds);
      continue;
    }
    if (started_ == 0) started_ = boundary;
    blocked_seconds_ += runtime::now_seconds() - boundary;
    step();
  }
  report(link::Phase::finished);
  communication_.flush(kGoodbyeSeconds);
  for (runtime::Inbox inbox; !inbox.leave && !inbox.syncer_lost; inbox = communication_.take()) {
    runtime::sleep_seconds(kIdleSeconds);
  }
  return true;
}

void DummyLearner::begin(const link::DownHeader& order) {
  order_ = order;
  report(link::Phase::playing);
}

void DummyLearner::receive(const runtime::WholeFragment& arrived) {
  const int fragment = arrived.header.fragment;
  const auto& extent = setup_.fragments[at(fragment)];
  link::Values scratch;
  const auto values = codec_.read(setup_.wire.whole(), *arrived.data, extent.size, scratch);
  if (!values) return;
  fragment::scatter(extent, *values, parameters_);
  held_[at(fragment)] = arrived.header.version;
  steps_since_[at(fragment)] = 0;
  runtime::forget_closed(asks_, arrived.header);
  if (setup_.wire.differences()) bases_[at(fragment)] = arrived.data;
  report(link::Phase::playing);
}

void DummyLearner::answer() {
  for (auto ask = asks_.begin(); ask != asks_.end() && communication_.can_stage();) {
    const std::size_t p = at(ask->fragment);
    if (!paused_ && steps_since_[p] == 0) {
      ++ask;
      continue;
    }
    link::FragmentHeader header;
    header.learner = order_.learner;
    header.incarnation = order_.incarnation;
    header.round = ask->round;
    header.fragment = ask->fragment;
    header.base_version = held_[p];
    header.steps = steps_since_[p];
    header.tokens = header.steps * setup_.batch_tokens();
    header.at_tokens = steps_ * setup_.batch_tokens();
    header.elements = setup_.fragments[p].size;
    auto values = std::make_shared<kernels::HostArray>(
        new float[static_cast<std::size_t>(header.elements)], header.elements,
        [](float* memory) { delete[] memory; });
    values->resize(header.elements);
    fragment::gather(setup_.fragments[p], parameters_, values->values());
    communication_.stage(header, std::move(values), bases_[p]);
    ask = asks_.erase(ask);
  }
}

void DummyLearner::step() {
  const double until = runtime::now_seconds() + step_seconds_;
  for (float& parameter : parameters_) parameter -= kChange;
  ++steps_;
  for (auto& steps : steps_since_) ++steps;
  runtime::sleep_seconds(std::max(0.0, until - runtime::now_seconds()));
}

void DummyLearner::report(link::Phase phase) {
  link::Report report;
  report.phase = phase;
  report.orders = order_.round;
  report.learner = order_.learner;
  report.incarnation = order_.incarnation;
  report.step = steps_;
  report.tokens = steps_ * setup_.batch_tokens();
  report.step_seconds = steps_ > 0 ? step_seconds_ : 0;
  report.life_steps = steps_;
  report.blocked_seconds = blocked_seconds_;
  report.busy_seconds = started_ == 0 ? 0 : runtime::now_seconds() - started_;
  report.resident_bytes = runtime::resident_bytes();
  report.held = held_;
  communication_.post(report);
}

bool DummyLearner::holds_all() const {
  return std::none_of(held_.begin(), held_.end(), [](std::int32_t v) { return v < 0; });
}

}  // namespace archipelago::bench
