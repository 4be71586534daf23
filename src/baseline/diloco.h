#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>

#include "baseline/averager.h"
#include "baseline/method.h"
#include "runtime/global_state.h"
#include "runtime/learner_state.h"
#include "runtime/setup.h"

namespace archipelago::baseline {

// What the ranks of one learner do together; in an island of one rank: nothing.
struct IslandCalls {
  std::function<void(std::span<float>)> average = [](std::span<float>) {};
  std::function<void(std::span<std::byte>)> broadcast = [](std::span<std::byte>) {};
};

// Streaming DiLoCo (Douillard et al. 2025), with P = 1 and tau = 0 DiLoCo (Douillard et al. 2023):
// every H inner steps each fragment's parameters are averaged over the learners, its turn H/P steps
// after that of the fragment before it; the mean may be on its way for tau inner steps, then
// everyone waits for it. With Delta = Theta - mean, the outer step is Nesterov's as in
// sync/merge.h, and the new Theta overwrites the learner's copy (Streaming DiLoCo's alpha = 0).
// Deviations from the paper: values travel in f32, and fragments are those of the decoupled method.
class Diloco : public Method {
 public:
  // H, P, tau: sync.interval, sync.fragments, sync.overlap of the setup, whose merge rule is the
  // mean. The state has begun a life and holds the initial parameters. `averager`: over the
  // learners' leaders, on these only. References must outlive this.
  Diloco(const runtime::Setup& setup, runtime::LearnerState& state, IslandCalls island,
         Averager* averager);

  bool meets(std::int64_t step) const override;
  void step(std::int64_t step) override;
  void finish() override;
  checkpoint::Global result() const override {
    checkpoint::Global state;
    global_->fill(state);
    return state;
  }
  double blocked_seconds() const override { return blocked_seconds_; }
  std::int64_t rounds() const override { return rounds_; }
  std::vector<RoundRow> take_rounds() override;

 private:
  struct Exchange {
    int fragment;
    std::int64_t due;  // after this inner step
    std::vector<float> values;
    std::int64_t mean;  // the averager's number
  };

  std::int64_t start_of(std::int64_t exchange) const;
  void start(int fragment, std::int64_t due);
  void complete_until(std::int64_t step);
  void complete();
  void merge(Exchange& exchange);

  const runtime::Setup& setup_;
  runtime::LearnerState& state_;
  IslandCalls island_;
  Averager* averager_;
  std::optional<runtime::GlobalState> global_;  // on leaders
  std::int64_t overlap_;                        // whole inner steps
  std::int64_t started_ = 0;
  std::int64_t rounds_ = 0;
  std::deque<Exchange> exchanges_;  // under way
  std::vector<RoundRow> rows_;
  double blocked_seconds_ = 0;
};

}  // namespace archipelago::baseline
