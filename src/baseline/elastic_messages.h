#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "baseline/roll.h"

namespace archipelago::baseline {

// What the coordinator of elastic data-parallel training and the other ranks tell each other, over
// MPI_COMM_WORLD: messages between two living ranks go on whoever else has died, while a new
// communicator can't be made reliably after a death.
//
// An **epoch** is the time in which the same ranks train together. It begins with `regroup`, to
// which every rank answers how far it is, and `train`, which says who is in it and where it begins;
// any death among them ends it. What an epoch's ranks exchange carries tags of its own, so what is
// left of an earlier one is never taken for it.

enum class OrderKind : std::int32_t {
  regroup,  // give up what you do and say how far you are
  train,    // the epoch begins: its members follow
  deliver,  // send the trained parameters
  leave,    // the run is over: say so and end the process
  fault,    // a planned fault (chaos) strikes this rank
};

// One rank that trains, in the order of the ring.
struct RingMember {
  std::int32_t rank = 0;      // of the world
  std::int32_t learner = 0;   // that it plays a part of
  std::int32_t receives = 0;  // 1: it gets everything that training goes on from
  std::int32_t unused = 0;
};

struct OrderHeader {
  OrderKind kind = OrderKind::regroup;
  std::int32_t epoch = 0;
  // train:
  std::int32_t members = 0;      // that follow
  std::int32_t source = 0;       // rank of the world that holds what others receive
  std::int32_t learner = -1;     // that the receiver plays
  std::int32_t incarnation = 0;  // of that learner
  std::int32_t learners = 0;     // that live
  std::int32_t place = 0;        // of the learner among them
  std::int64_t steps = 0;        // where the epoch begins
  std::int64_t run_tokens = 0;   // trained by all until then
  // The order of the data was dealt out to the present learners when so many steps and sequences of
  // all learners had been trained.
  std::int64_t dealt_steps = 0;
  std::int64_t dealt_sequences = 0;
  std::int32_t stop = 0;  // 1: no more steps
  // leave: 1 when nothing was given up, so that MPI_Finalize is safe.
  std::int32_t orderly = 0;
  // fault:
  std::int32_t fault = 0;  // runtime::FaultKind
  std::int32_t unused = 0;
  double seconds = 0;
  double factor = 0;
};

struct Order {
  OrderHeader header;
  std::vector<RingMember> members;
};

enum class AnswerKind : std::int32_t {
  here,      // to regroup
  step,      // an inner step is done
  finished,  // there is nothing more to train
  left,      // to leave: the last word
};

struct Answer {
  AnswerKind kind = AnswerKind::here;
  std::int32_t epoch = 0;
  std::int64_t steps = -1;  // that the parameters have been through; -1: there are none
  std::int64_t run_tokens = 0;
  std::uint64_t digest = 0;  // finished: of the parameters
  RollEntry entry = {};      // step
};

// What stands before the parameters and moments that a rank receives.
struct StateHeader {
  std::int64_t optimizer_steps = 0;
  std::int64_t first_moments = 0;  // elements
  std::int64_t second_moments = 0;
};

inline constexpr int kCoordinator = 0;  // rank of the world

// Tags. Of each epoch there are two; 15 bits are what MPI promises.
inline constexpr int kOrderTag = 1;
inline constexpr int kAnswerTag = 2;
inline constexpr int kParametersTag = 3;
inline constexpr int kEpochs = 8192;
inline int ring_tag(int epoch) { return 16 + epoch % kEpochs; }
inline int state_tag(int epoch) { return 16 + kEpochs + epoch % kEpochs; }

}  // namespace archipelago::baseline
