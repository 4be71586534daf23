#pragma once

#include <memory>
#include <vector>

#include "fragment/codec.h"
#include "link/message.h"
#include "runtime/asks.h"
#include "runtime/communication.h"
#include "runtime/setup.h"

namespace archipelago::bench {

// A learner that computes nothing: its inner step takes kChange off every parameter. All the rest,
// what it receives, sends and reports, is as runtime::IslandProcess does it.
class DummyLearner {
 public:
  static constexpr float kChange = 1e-3F;

  // References must outlive this.
  DummyLearner(const runtime::Setup& setup, runtime::Communication& communication,
               double step_seconds);

  // Until the run is over. False: no syncer is left.
  bool run();

 private:
  void begin(const link::DownHeader& order);
  void receive(const runtime::WholeFragment& arrived);
  void answer();
  void step();
  void report(link::Phase phase);
  bool holds_all() const;

  static std::size_t at(int fragment) { return static_cast<std::size_t>(fragment); }

  const runtime::Setup& setup_;
  runtime::Communication& communication_;
  double step_seconds_;
  fragment::Codec codec_{1};
  std::vector<float> parameters_;
  std::vector<std::shared_ptr<const link::Bytes>> bases_;
  std::vector<std::int32_t> held_;
  std::vector<std::int64_t> steps_since_;
  runtime::Asks asks_;
  link::DownHeader order_;
  std::int64_t steps_ = 0;
  bool paused_ = false;
  double started_ = 0;
  double blocked_seconds_ = 0;
};

}  // namespace archipelago::bench
