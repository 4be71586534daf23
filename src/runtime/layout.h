#pragma once

#include <vector>

#include "config/run_config.h"

namespace archipelago::runtime {

// Which world rank plays which part: rank 0 the syncer, then the standby syncers, then the islands
// one after the other, the spare ones last. An island's first rank is its leader.
struct Layout {
  int standbys;
  int islands;
  int ranks_per_island;

  static constexpr int kSyncer = 0;

  int first_rank(int island) const { return 1 + standbys + island * ranks_per_island; }
  // -1 for a syncer.
  int island_of(int rank) const {
    return rank <= standbys ? -1 : (rank - 1 - standbys) / ranks_per_island;
  }
  bool is_leader(int rank) const {
    return island_of(rank) >= 0 && rank == first_rank(island_of(rank));
  }
  int world_size() const { return first_rank(islands); }
};

// Throws Error(configuration) when the options' islands do not fill `world_size` ranks.
Layout make_layout(const config::Sync& options, int world_size);

}  // namespace archipelago::runtime
