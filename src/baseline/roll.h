#pragma once

#include <cstdint>
#include <vector>

#include "mpi/communicator.h"

namespace archipelago::baseline {

// What every rank tells of itself when learners meet.
struct RollEntry {
  std::int64_t steps = 0;
  std::int64_t life_steps = 0;  // of them, those of this rank's own
  std::int64_t tokens = 0;
  double loss = 0;
  double accuracy = -1;  // of images, else -1
  double learning_rate = 0;
  double gradient_norm = 0;
  double step_seconds = 0;  // recent inner steps, without waiting
  double blocked_seconds = 0;
  double busy_seconds = 0;  // since the first step
  double memory_ratio = 0;
  std::int64_t resident_bytes = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  std::int32_t stop = 0;  // 1: it was asked to end early
  std::int32_t unused = 0;
};

// Gathers the entries of all ranks on each of them, beside an inner step.
class Roll {
 public:
  // Collective over the ranks.
  explicit Roll(mpi::Communicator comm);
  Roll(const Roll&) = delete;
  Roll& operator=(const Roll&) = delete;

  // Tells the own entry. Every rank does so in the same inner step.
  void start(const RollEntry& own);

  // By rank, once all have told. Throws Error(internal) when one died.
  const std::vector<RollEntry>& finish();

  // Collective over the ranks.
  void close() { comm_.close(); }

 private:
  mpi::Communicator comm_;
  RollEntry own_;
  std::vector<RollEntry> all_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace archipelago::baseline
