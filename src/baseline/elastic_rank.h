#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "baseline/order_channel.h"
#include "baseline/step_notes.h"
#include "data/dataset.h"
#include "mpi/session.h"
#include "runtime/layout.h"
#include "runtime/learner_state.h"
#include "runtime/setup.h"

namespace archipelago::baseline {

// One rank of an island in elastic data-parallel training: trains with the others of each epoch
// (elastic_messages.h), gives the step up when one of them dies, and goes on in the next epoch from
// where the furthest of those who live has got to. A spare's rank sleeps until an epoch has it.
class ElasticRank {
 public:
  // Those of the first islands hold the initial parameters from the start. References must outlive
  // this.
  ElasticRank(const runtime::Setup& setup, const data::Dataset& dataset,
              const runtime::Layout& layout, int rank);

  // To the end of the run. Returns how to end the process. Throws Error(internal) when the
  // coordinator has died.
  mpi::Ending play();

 private:
  void make_state(int learner);
  void train(const Order& order);
  void begin(const Order& order);
  void send_state(const Order& order);
  void receive_state(const Order& order);
  void wait(MPI_Request& request);
  void take_steps(const Order& order);
  void be_slow(double seconds);
  void tell_step();
  void finish(int epoch);
  void deliver();

  const runtime::Setup& setup_;
  const data::Dataset& dataset_;
  int rank_;
  int rank_in_island_;
  int ranks_per_island_;
  OrderChannel channel_;
  StepNotes notes_;
  std::optional<runtime::LearnerState> state_;
  std::vector<float> room_;       // of arrays of a GPU
  std::int64_t held_steps_ = -1;  // that the parameters have been through; -1: there are none
  std::int64_t run_tokens_ = 0;
  int epoch_ = 0;
  // Of the present life, over its epochs.
  std::int64_t first_step_ = 0;
  double blocked_seconds_ = 0;
  double busy_seconds_ = 0;
  std::int64_t bytes_sent_ = 0;
  std::int64_t bytes_received_ = 0;
};

}  // namespace archipelago::baseline
