#pragma once

#include <memory>
#include <optional>

#include "link/mailbox.h"
#include "mpi/communicator.h"
#include "mpi/window.h"

namespace archipelago::link {

// The communicator and the window that one syncer rank and one leader share. Made at the start of
// the job for every leader there may ever be, while all are healthy (docs/design.md, "The
// exchange").
struct MpiPair {
  static constexpr int kSyncer = 0;  // ranks in `comm`
  static constexpr int kLeader = 1;

  mpi::Communicator comm;
  mpi::Window window;

  // Collective over the two world ranks. `tag` differs from pair to pair. Nothing when one of them
  // has died meanwhile.
  static std::optional<MpiPair> create(int syncer_world_rank, int leader_world_rank, int tag,
                                       const MailboxLayout& layout);

  // On a communicator of just the two, syncer first. Collective over it.
  static MpiPair on(mpi::Communicator comm, const MailboxLayout& layout);

  // Collective over the pair; only when both live.
  void close();
};

// Tags on the pair's communicator.
enum PairTag : int {
  kHeaderTag = 1,    // down: DownHeader
  kDataTag = 2,      // down: the data that a header announces
  kSentinelTag = 3,  // up: never sent; a receive for it fails when the leader dies
};

}  // namespace archipelago::link
