#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "link/link.h"
#include "runtime/global_state.h"

namespace archipelago::runtime {

// Seconds after which what a learner was sent and does not report counts as lost on its way; also a
// few of the learner's steps, since it takes in what has arrived between two of them.
double mend_pause(double step_seconds);

// Brings each learner up to the newest version of every fragment that is held, without a queue that
// grows: for each peer it only remembers which fragments are out of date there, and sends the
// newest values when the ones before have left; where updates travel, those that lead there from
// what it was sent before, if they are kept.
class FragmentSender {
 public:
  FragmentSender(link::SyncerEnd& link, GlobalState& state, int fragments);

  void add_peer();

  // The peer lacks the newest version of this fragment.
  void mark(int peer, int fragment);
  // It lacks all fragments that are held, whatever it was sent before.
  void mark_all(int peer);
  // The same of what is held and of which it has, by its report, less than `versions` of every
  // fragment.
  void mark_older(int peer, std::span<const std::int32_t> reported,
                  std::span<const std::int32_t> versions);
  // It needs none any more.
  void clear(int peer) { begin_life(peer, -1, -1); }

  // What is sent from now on is meant for this life; it lacks nothing yet.
  void begin_life(int peer, int learner, int incarnation);

  // Sends what may be sent now. `run_tokens`: trained by all learners so far.
  void pump(std::int64_t run_tokens);

 private:
  struct Peer {
    std::vector<bool> missing;
    std::vector<std::int32_t> sent;  // the last version of each fragment; -1: count on none
    int next = 0;                    // fragments take turns
    int count = 0;
    int learner = -1;
    int incarnation = -1;
  };

  void mark_whole(int peer, int fragment);
  void send(int peer, int fragment, std::int64_t run_tokens);

  link::SyncerEnd& link_;
  GlobalState& state_;
  int fragments_;
  std::vector<Peer> peers_;
};

}  // namespace archipelago::runtime
