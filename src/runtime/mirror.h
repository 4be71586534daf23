#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "link/replica.h"
#include "runtime/chaos.h"
#include "runtime/global_state.h"
#include "runtime/setup.h"
#include "runtime/tape_follower.h"

namespace archipelago::runtime {

// The last order that was given to an island: what it is told again if it never heard of it.
struct StandingOrder {
  std::int64_t number = 0;  // orders given so far
  link::DownHeader header;
  std::optional<link::DownMessage> lease;  // the newest of the life that the order began
};

// The syncer's state as a standby syncer follows it, event by event.
class Mirror {
 public:
  // `restored`, `struck`: what the syncer itself started from.
  Mirror(const Setup& setup, const std::optional<checkpoint::Global>& restored, int islands,
         const StruckFaults& struck);

  // Throws Error(internal) when the syncer decided something else than the mirror would have.
  void apply(link::ReplicaMessage message);

  const sync::Machine& machine() const { return tape_.machine(); }
  const GlobalState& state() const { return state_; }
  const Chaos& chaos() const { return chaos_; }
  const std::vector<StandingOrder>& orders() const { return orders_; }
  const std::optional<sync::Finish>& finish() const { return finish_; }
  bool paused() const { return paused_; }
  sync::Nanoseconds time() const { return time_; }   // of the last event
  double heard() const { return heard_; }            // now_seconds() when it came
  std::int64_t entries() const { return entries_; }  // of the event tape, since the run's start

  const sync::TapeChain& chain() const { return tape_.chain(); }

  // The newest entries of the tape, of which the syncer may not have written all.
  const std::deque<std::string>& recent_entries() const { return recent_; }

 private:
  void meet(int island);
  void follow(const std::vector<sync::Action>& actions);

  TapeFollower tape_;
  GlobalState state_;
  // Merges that the tape does not know yet, by fragment.
  std::map<int, GlobalState::MergedFragment> merged_;
  Chaos chaos_;
  std::vector<StandingOrder> orders_;  // by island
  bool paused_ = false;
  std::optional<sync::Finish> finish_;
  sync::Nanoseconds time_ = 0;
  double heard_ = 0;
  std::int64_t entries_ = 0;
  std::deque<std::string> recent_;
};

// The message that an order is: Assign, Expel or Retire. Shared by the syncer and its mirror.
link::DownHeader order_of(const sync::Assign& action);
link::DownHeader order_of(const sync::Expel& action);
link::DownHeader order_of(const sync::Retire& action);

// The message of an Ask; `version`: its fragment's clock.
link::DownHeader ask_header(const sync::Ask& action, std::int32_t version);

}  // namespace archipelago::runtime
