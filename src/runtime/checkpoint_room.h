#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runtime/setup.h"

namespace archipelago::runtime {

// Bytes of the checkpoints' arrays; the files are a little larger.
struct CheckpointBytes {
  std::int64_t global = 0;
  std::int64_t learners = 0;  // one of every learner together; none where the method writes none
};
CheckpointBytes checkpoint_bytes(const Setup& setup);

// Global checkpoints of a whole run that stay for ever (checkpoint.keep_every).
double kept_for_ever(const Setup& setup);

// Bytes of all checkpoints of a run that lie on the disk at once, at the most.
double bytes_of_checkpoints(const Setup& setup);

// What is free where a run's checkpoints go.
struct FreeRoom {
  std::filesystem::path folder;  // the run's, or what there is of the way to it
  double free = 0;               // bytes
  double taken = 0;              // by the run's checkpoints already, which make room for the next
  bool holds(double bytes) const { return bytes <= free + taken; }
};

// Nothing where the run's folder has no name, or the file system does not tell.
std::optional<FreeRoom> free_room(const std::filesystem::path& run);

// Says so in the log where the checkpoints of the run will find too little room.
void warn_of_little_room(const Setup& setup);

}  // namespace archipelago::runtime
