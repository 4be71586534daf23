#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/random.h"
#include "data/dataset.h"
#include "emulate/conditions.h"
#include "emulate/moments.h"
#include "emulate/timeline.h"
#include "emulate/virtual_link.h"
#include "kernels/kernels.h"
#include "runtime/asks.h"
#include "runtime/fragment_decoder.h"
#include "runtime/fragment_encoder.h"
#include "runtime/learner_state.h"
#include "runtime/setup.h"

namespace archipelago::emulate {

// What all islands share; references must outlive them.
struct Surroundings {
  const runtime::Setup& setup;
  const data::Dataset& dataset;
  const Conditions& conditions;
  std::shared_ptr<kernels::Kernels> kernels;
  Timeline& timeline;
  VirtualLink& link;
  Moments& moments;
  std::int64_t trained_tokens = 0;  // by all lives, whatever became of it
};

// The life of an island of one rank in virtual time, as runtime::IslandProcess and its
// Communication lead it: an inner step is computed when its end has come, so that a death in it
// loses it.
class Island {
 public:
  // `site`: where it stands, which sets its speed; `number`: its peer.
  Island(Surroundings& surroundings, int site, int number);

  // Says that it is there.
  void start();

  void take(link::DownMessage message);
  void take_room();  // for fragments on their way up

  // Faults.
  void kill();
  void stop(double seconds);
  void slow(double factor, double seconds);

  int site() const { return site_; }

 private:
  void call_turn(Nanoseconds time);
  void turn();
  void turn_if_idle();
  void finish_step();
  void follow_order();
  void begin();
  void install();
  void follow_lease();
  void stage_asked();
  void stage(const link::DownHeader& ask);
  void start_step();
  void post_report();
  void beat();
  bool is_of_this_life(const link::DownHeader& header) const;

  Surroundings& around_;
  int site_;
  int number_;
  Random random_;
  runtime::FragmentEncoder encoder_;
  runtime::FragmentDecoder decoder_;

  // What has come and was not acted upon.
  std::optional<link::DownHeader> order_;
  std::map<int, runtime::WholeFragment> arrived_;
  std::optional<link::DownMessage> lease_;
  runtime::Asks asks_;
  bool paused_ = false;

  std::unique_ptr<runtime::LearnerState> state_;
  std::vector<std::shared_ptr<const link::Bytes>> bases_;  // (P) see LearnerState::needs_base()
  link::Phase phase_ = link::Phase::ready;
  std::int64_t orders_ = 0;
  std::int64_t followed_lease_ = 0;
  std::int64_t lease_tokens_ = 0;
  std::int64_t run_tokens_ = 0;
  bool dead_ = false;
  bool busy_ = false;  // until its next turn, which is planned: in a step, joining, stopped
  std::optional<link::DownHeader> joining_;  // the order that it gets ready for
  std::optional<double> step_started_;       // seconds
  Nanoseconds stopped_until_ = 0;
  double stopped_seconds_ = 0;  // that its next turn is put off by
  double slow_factor_ = 1;
  Nanoseconds slow_until_ = 0;
  double step_seconds_ = 0;  // recent
  std::int64_t life_steps_ = 0;
  double life_started_ = 0;
  link::Report report_;
  Nanoseconds reported_ = 0;
  bool report_changed_ = true;
};

}  // namespace archipelago::emulate
