#pragma once

#include <vector>

#include "config/run_config.h"

namespace archipelago::runtime {

// Which world rank plays which part: rank 0 the syncer, then those that merge beside it, then the
// standby syncers, then the islands one after the other, the spare ones last. An island's first
// rank is its leader. Elastic data-parallel training has a coordinator as rank 0 instead of
// syncers. Other methods without a syncer have neither that nor spares: rank 0 leads the first
// island, and keeps the records.
struct Layout {
  int merging;  // syncers that share the fragments, rank 0 among them
  int syncers;  // with the standbys
  int islands;
  int ranks_per_island;

  static constexpr int kSyncer = 0;

  int standbys() const { return syncers - merging; }
  int first_rank(int island) const { return syncers + island * ranks_per_island; }
  // -1 for a syncer.
  int island_of(int rank) const {
    return rank < syncers ? -1 : (rank - syncers) / ranks_per_island;
  }
  bool is_leader(int rank) const {
    return island_of(rank) >= 0 && rank == first_rank(island_of(rank));
  }
  int world_size() const { return first_rank(islands); }
};

// Throws Error(configuration) when the options' islands do not fill `world_size` ranks.
Layout make_layout(const config::RunConfig& config, int world_size);

}  // namespace archipelago::runtime
