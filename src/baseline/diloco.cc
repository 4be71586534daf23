#include "baseline/diloco.h"

#include <cmath>
#include <limits>
#include <utility>

#include "runtime/clock.h"

namespace archipelago::baseline {

Diloco::Diloco(const runtime::Setup& setup, runtime::LearnerState& state, IslandCalls island,
               Averager* averager)
    : setup_(setup),
      state_(state),
      island_(std::move(island)),
      averager_(averager),
      overlap_(static_cast<std::int64_t>(setup.config.sync.overlap)) {
  if (averager_ != nullptr) global_.emplace(setup);
}

// The inner step after which the exchange with this number (from 1) starts.
std::int64_t Diloco::start_of(std::int64_t exchange) const {
  return static_cast<std::int64_t>(std::ceil(
      static_cast<double>(exchange) * setup_.config.sync.interval / setup_.fragment_count()));
}

bool Diloco::meets(std::int64_t step) const {
  const bool one_is_due = !exchanges_.empty() && exchanges_.front().due <= step;
  return one_is_due || (overlap_ == 0 && start_of(started_ + 1) <= step);
}

void Diloco::step(std::int64_t step) {
  state_.step(island_.average);
  const double began = runtime::now_seconds();
  complete_until(step);
  while (start_of(started_ + 1) <= step) {
    start(static_cast<int>(started_ % setup_.fragment_count()), step + overlap_);
  }
  complete_until(step);
  blocked_seconds_ += runtime::now_seconds() - began;
}

void Diloco::finish() {
  const double began = runtime::now_seconds();
  constexpr auto kEver = std::numeric_limits<std::int64_t>::max();
  complete_until(kEver);
  for (int fragment = 0; fragment < setup_.fragment_count(); ++fragment) {
    if (state_.has_news(fragment)) start(fragment, kEver);
  }
  complete_until(kEver);
  blocked_seconds_ += runtime::now_seconds() - began;
}

std::vector<RoundRow> Diloco::take_rounds() { return std::exchange(rows_, {}); }

void Diloco::start(int fragment, std::int64_t due) {
  ++started_;
  const auto size = setup_.fragments[static_cast<std::size_t>(fragment)].size;
  exchanges_.push_back({fragment, due, std::vector<float>(static_cast<std::size_t>(size)), 0});
  Exchange& exchange = exchanges_.back();
  if (averager_ == nullptr) return;
  state_.copy_fragment(fragment, exchange.values);
  exchange.mean = averager_->start(exchange.values);
}

void Diloco::complete_until(std::int64_t step) {
  while (!exchanges_.empty() && exchanges_.front().due <= step) complete();
}

void Diloco::complete() {
  Exchange exchange = std::move(exchanges_.front());
  exchanges_.pop_front();
  ++rounds_;
  if (averager_ != nullptr) merge(exchange);
  island_.broadcast(std::as_writable_bytes(std::span(exchange.values)));
  const auto version = static_cast<std::int32_t>((rounds_ - 1) / setup_.fragment_count() + 1);
  state_.receive(exchange.fragment, version, exchange.values);
}

// Replaces the exchange's values, the learners' mean, by the new Theta.
void Diloco::merge(Exchange& exchange) {
  const double began = runtime::now_seconds();
  averager_->wait(exchange.mean);
  const double arrived = runtime::now_seconds();
  global_->adopt(global_->merge(exchange.fragment, {{exchange.values, 1.0}}));
  exchange.values = *global_->theta(exchange.fragment);
  rows_.push_back({rounds_, exchange.fragment, global_->version(exchange.fragment), arrived - began,
                   runtime::now_seconds() - arrived});
}

}  // namespace archipelago::baseline
