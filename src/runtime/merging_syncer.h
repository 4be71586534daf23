#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "link/link.h"
#include "link/replica.h"
#include "runtime/arrivals.h"
#include "runtime/fragment_sender.h"
#include "runtime/global_state.h"
#include "runtime/merge_worker.h"
#include "runtime/setup.h"
#include "runtime/tape_follower.h"

namespace archipelago::runtime {

// A syncer beside the first one: holds its share of the fragments, takes in what learners send of
// them, merges and sends them out. It decides nothing: it tells the first syncer what has arrived,
// follows that one's decisions by the event tape, and does what they say of its fragments.
class MergingSyncer {
 public:
  enum class End {
    concluded,  // the run is over; nobody died
    concluded_after_losses,
    deserted,  // the first syncer is dead
  };

  // Streams from and to the first syncer.
  struct Streams {
    link::ReplicaReceiver& decisions;
    link::ReplicaSender& events;
    link::ReplicaSender& fragments;  // of their own, so that no decision waits for a checkpoint
  };

  // `restored`: what the first syncer starts from. References must outlive this.
  MergingSyncer(const Setup& setup, Share share, link::SyncerEnd& link, Streams streams,
                const std::optional<checkpoint::Global>& restored);

  // One turn of the loop; how it ended, once it has.
  std::optional<End> turn();

  const GlobalState& state() const { return state_; }

 private:
  using Key = Arrivals::Key;

  // An island's leader, from its number on.
  struct Peer {
    bool lost = false;
    int learner = -1;
    int incarnation = -1;
    // What had been sent when mend() last looked; empty: not looked yet in this life.
    std::vector<std::int32_t> sent;
    double next_mend = 0;
  };

  void listen();
  void take_merged();
  void tell(const sync::Event& event);
  void beat();

  void follow(const std::string& line);
  void act(const sync::Assign& action);
  void act(const sync::Expel& action) { begin_life(action.island, -1, -1); }
  void act(const sync::Retire& action) { begin_life(action.island, -1, -1); }
  void act(const sync::Refresh& action);
  void act(const sync::Merge& action);
  void act(const sync::Publish& action);
  void act(const sync::Discard& action);
  template <typename Other>
  void act(const Other&) {}  // the first syncer's

  void begin_life(int peer, int learner, int incarnation);
  void mend(const sync::Report& report);
  void send_all(std::int64_t cut);
  std::optional<int> peer_of(int learner, int incarnation) const;

  const Setup& setup_;
  link::SyncerEnd& link_;
  Streams streams_;
  TapeFollower tape_;
  GlobalState state_;
  MergeWorker merger_;
  FragmentSender sender_;
  Arrivals arrivals_;
  std::vector<Peer> peers_;
  std::map<std::int64_t, std::vector<Key>> merging_;  // by round
  double next_beat_ = 0;
  double last_turn_;
  double largest_gap_ = 0;
};

}  // namespace archipelago::runtime
