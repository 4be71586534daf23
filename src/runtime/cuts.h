#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "link/replica.h"
#include "runtime/global_state.h"

namespace archipelago::runtime {

// The global states that the first of several syncers collects: a cut is its own fragments as they
// stood at one entry of the tape, and every other syncer's as they stand after the same entry.
class Cuts {
 public:
  struct Cut {
    std::int64_t number;
    std::int64_t round;
    GlobalState state;                                   // what has been collected so far
    int missing;                                         // fragments
    std::shared_ptr<checkpoint::Global> file = nullptr;  // to be saved in; null: not saved
  };

  // Begins one; its number, which the others' parts of it carry.
  std::int64_t begin(std::int64_t round, const GlobalState& own, int fragments);

  // The cut that has just begun is of this round: it is to be saved.
  void save_newest(std::int64_t round, std::shared_ptr<checkpoint::Global> file);

  // Takes in a part, of any cut. That cut where it was the last one; it is under way no longer.
  std::optional<Cut> take(link::ReplicaMessage part);

  bool under_way() const { return !cuts_.empty(); }

 private:
  std::list<Cut> cuts_;
  std::int64_t number_ = 0;
};

}  // namespace archipelago::runtime
