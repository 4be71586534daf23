#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "data/dataset.h"
#include "link/mailbox.h"
#include "link/mpi_pair.h"
#include "mpi/session.h"
#include "runtime/chaos.h"
#include "runtime/guest_door.h"
#include "runtime/layout.h"
#include "runtime/run_folder.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// What a rank has once the start has succeeded everywhere.
struct Job {
  mpi::Session& session;
  RunFolder folder;
  std::optional<Layout> layout;  // not in a spawned rank
  std::unique_ptr<data::Dataset> dataset;
  std::optional<Setup> setup;
  std::optional<checkpoint::Global> restored;  // syncers only, with --resume
  StruckFaults struck = {};                    // likewise, by earlier starts
  std::unique_ptr<GuestDoor> door = {};        // the syncer only, with sync.listen

  // Of the only syncer.
  link::MailboxLayout mailbox() const { return mailbox_layout(*setup); }
  // Of one of several, or of a standby.
  link::MailboxLayout mailbox(int syncer) const { return mailbox_layout(*setup, share(syncer)); }
  Share share(int syncer) const {
    return syncer < layout->merging ? Share{syncer, layout->merging} : Share{};
  }
};

// Checks options, data and folder on all ranks together and fills `job`. Where something is wrong
// one rank logs one line, and every rank gets the exit code. Collective over the world.
std::optional<int> prepare_job(Job& job, const config::RunConfig& config);

// Where guests come in; null without sync.listen. Throws Error(configuration) where it cannot
// listen.
std::unique_ptr<GuestDoor> open_door(const Job& job);

// For the ranks of a guest (guest_door.h), whose options are the run's but for its own machine's.
// Exit code as above. Collective over the guest's world.
std::optional<int> prepare_guest(Job& job, const config::RunConfig& config);

// For a rank that was spawned into a running job: options and data were checked by those before it.
void prepare_spawned(Job& job, const config::RunConfig& config);

// This rank's pairs: of a syncer with every leader, of a leader with every syncer, in order. Every
// rank of the world calls it. Throws Error(try_again) when a rank died meanwhile.
std::vector<link::MpiPair> create_pairs(const Job& job);

// Play this rank's part to the end of the job; never return.
[[noreturn]] void play_syncer(Job& job);
[[noreturn]] void play_merging_syncer(Job& job);
[[noreturn]] void play_standby(Job& job);
[[noreturn]] void play_island(Job& job);
[[noreturn]] void play_spawned_island(Job& job);

// Plays a guest's part, or returns the exit code where it was not let in.
int play_guest(Job& job);

}  // namespace archipelago::runtime
