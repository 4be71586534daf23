#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace archipelago::sync {

// Time since the start of the run as the driver tells it: real, virtual or read from a tape.
using Nanoseconds = std::int64_t;

// What the machine needs to know of a run; derived from config::RunConfig.
struct Settings {
  int learners = 3;      // M, learner ids 0 .. M-1
  int fragments = 24;    // P
  double interval = 24;  // H, inner steps between two merges of one fragment
  double overlap = 2;    // tau, inner steps an exchange may take
  int quorum = 1;        // K
  double grace = 0.75;   // gamma
  Nanoseconds grace_cap = 60'000'000'000;
  Nanoseconds suspect_after = 5'000'000'000;  // without a report
  Nanoseconds expel_after = 30'000'000'000;   // without a report
  double outlier = 10;                        // times the median norm; 0: no check
  double loss_limit = 0;                      // nats: above it a step has diverged; 0: none
  int max_open_rounds = 2;                    // slots of a pair (design.md, "The exchange")
  int spares = 1;                 // size of the pool of spares that Refill keeps up; islands
                                  // M .. M+spares-1 start with the job
  std::int64_t token_budget = 0;  // the run is complete when all learners' tokens reach it; 0:
                                  // only a stop ends it
  std::int64_t batch_tokens = 1;  // tokens of one inner step of a learner
  std::int64_t checkpoint_rounds = 50;
  Nanoseconds checkpoint_after = 0;   // since the last: a checkpoint of fewer rounds, too; 0: never
  std::vector<int> shards;            // of the data of each group of learners; none: no data
  std::vector<std::int64_t> windows;  // sequences of one epoch of it, at least one a shard
  std::vector<int> groups;            // by learner; those not named here: group 0
  std::int64_t sequence_tokens = 1;

  // Whether a step of this loss has diverged: it is not finite, or above the limit.
  bool has_diverged(double loss) const {
    return !std::isfinite(loss) || (loss_limit > 0 && loss > loss_limit);
  }
  bool operator==(const Settings&) const = default;
};

// What a global checkpoint brings back. Empty: a fresh run.
struct Restored {
  std::int64_t round = 0;                   // rounds closed so far
  std::vector<std::int32_t> versions;       // (P)
  std::vector<std::int32_t> incarnations;   // (M) the next life gets a higher one
  std::vector<std::int64_t> merged_tokens;  // (M, P) see LearnerView::merged_tokens
  std::vector<std::int64_t> shards;         // (S) cursors, group by group; empty: all at 0
  bool operator==(const Restored&) const = default;
};

// ---- Events: what the driver tells -------------------------------------------------------------

// An idle island (all its ranks are up, it plays no learner) waits to be given one.
struct IslandReady {
  int island;
  bool operator==(const IslandReady&) const = default;
};

// The same of a guest: it is to train, so it gets an open place itself, and where none is open one
// that is made for it, as long as the data has a shard for it; but not when it has just retired.
struct GuestReady {
  int island;
  bool operator==(const GuestReady&) const = default;
};

// Nothing will come from this island again (an MPI failure on its pair, a lost host).
struct IslandLost {
  int island;
  std::string reason;
  bool operator==(const IslandLost&) const = default;
};

// A learner's state, sent at every inner-step boundary and at least every heartbeat; only the
// latest matters. held[p]: version of fragment p that it has received in full; -1: none.
struct Report {
  int learner;
  int incarnation;
  std::int64_t step;    // inner steps of this learner id over all its lives
  std::int64_t tokens;  // tokens trained by this learner id over all its lives, counted once
  double step_seconds;  // recent seconds an inner step; 0: no step in this life yet
  double loss;          // of the last step
  std::vector<std::int32_t> held;
  bool operator==(const Report&) const = default;
};

// The learner trains on what the Lease of this number says, since it had trained so many tokens.
// Told before any Report or Delivery of what it has trained since.
struct LeaseFollowed {
  int learner;
  int incarnation;
  std::int64_t number;
  std::int64_t tokens;
  bool operator==(const LeaseFollowed&) const = default;
};

// A whole, checksummed fragment of a learner has arrived; the driver keeps its data until a Merge
// or Discard names it.
struct Delivery {
  int learner;
  int incarnation;
  std::int64_t round;
  int fragment;
  std::int32_t base_version;
  std::int64_t steps;      // c_steps: inner steps since the learner received this fragment
  std::int64_t tokens;     // c_tokens: tokens since then
  std::int64_t at_tokens;  // the learner's Report::tokens when the fragment was copied
  double loss;             // the highest of these steps; not finite if one was not
  double norm;             // ||Theta_p - theta_p||, not finite if any element is not
  bool operator==(const Delivery&) const = default;
};

// The Merge of this round is done and took so many seconds.
struct Merged {
  std::int64_t round;
  double seconds;
  bool operator==(const Merged&) const = default;
};

// next_wakeup() has come. Time limits are looked at on a Tick alone: the driver first hands in all
// that has arrived, so that learners are not blamed for a driver that was held up.
struct Tick {
  bool operator==(const Tick&) const = default;
};

// End early, resumable.
struct StopRequested {
  std::string reason;
  bool operator==(const StopRequested&) const = default;
};

// Every island is gone, and none is to come: end, resumable.
struct NobodyLeft {
  std::string reason;
  bool operator==(const NobodyLeft&) const = default;
};

// The wanted number of learners from now on.
struct ScaleRequested {
  int learners;
  bool operator==(const ScaleRequested&) const = default;
};

// A standby syncer goes on from here: what the one before held of open rounds is lost with it.
struct SyncerReplaced {
  std::int64_t term;
  bool operator==(const SyncerReplaced&) const = default;
};

using Event = std::variant<IslandReady, IslandLost, Report, LeaseFollowed, Delivery, Merged, Tick,
                           StopRequested, NobodyLeft, ScaleRequested, SyncerReplaced, GuestReady>;

// ---- Actions: what the driver shall do ---------------------------------------------------------

// The island becomes this learner's next life: it reads a checkpoint, takes the fragments that
// Refresh sends, and goes on with its data where `tokens` says.
struct Assign {
  int island;
  int learner;
  int incarnation;
  std::int64_t tokens;
  bool operator==(const Assign&) const = default;
};

// Send this learner every fragment at its current version (a joiner, or one that must take the
// global state).
struct Refresh {
  int learner;
  int incarnation;
  bool operator==(const Refresh&) const = default;
};

// From its next step on the learner trains on these data shards alone: on those it has been
// training on from where it is, on the others from these cursors (data/shards.h); then
// LeaseFollowed is told.
struct Lease {
  int learner;
  int incarnation;
  std::int64_t number;  // counts a learner id's leases, from 1
  std::vector<int> shards;
  std::vector<std::int64_t> cursors;
  bool operator==(const Lease&) const = default;
};

// Ask the learner for its copy of the fragment.
struct Ask {
  int learner;
  int incarnation;
  std::int64_t round;
  int fragment;
  bool operator==(const Ask&) const = default;
};

struct Contribution {
  int learner;
  int incarnation;
  double weight;
  bool operator==(const Contribution&) const = default;
};

// Merge the contributions' data into the fragment (merge.h), then tell Merged.
struct Merge {
  std::int64_t round;
  int fragment;
  std::vector<Contribution> contributions;
  bool operator==(const Merge&) const = default;
};

// Send the merged fragment to every learner that is joining, active or suspect.
struct Publish {
  std::int64_t round;
  int fragment;
  std::int32_t version;
  bool operator==(const Publish&) const = default;
};

// Drop the delivered data of (learner, incarnation, round). Of two deliveries with the same three
// ("duplicate"), the one that came last.
struct Discard {
  int learner;
  int incarnation;
  std::int64_t round;
  int fragment;
  std::string reason;  // late, stale incarnation, duplicate, not finite, too long alone, diverged,
                       // outlier, ...
  bool operator==(const Discard&) const = default;
};

// The learner's place is given away: tell its island to become a spare when it can hear again.
struct Expel {
  int island;
  int learner;
  int incarnation;
  std::string reason;
  bool operator==(const Expel&) const = default;
};

// The learner leaves on request: its island checkpoints and becomes a spare.
struct Retire {
  int island;
  int learner;
  int incarnation;
  bool operator==(const Retire&) const = default;
};

// Training is complete: learners stop stepping, answer the last asks (also with c_steps = 0), wait.
struct Pause {
  bool operator==(const Pause&) const = default;
};

// Write a global checkpoint: no merge is under way, so it is a consistent cut.
struct SaveGlobal {
  std::int64_t round;
  bool operator==(const SaveGlobal&) const = default;
};

// The pool of spares is below its size by this many.
struct Refill {
  int islands;
  bool operator==(const Refill&) const = default;
};

enum class Outcome {
  complete,
  stopped,
  no_learners,
  diverged,  // every learner's loss: what was saved before stays the newest
};

// Always the last action.
struct Finish {
  Outcome outcome;
  std::string reason;
  bool operator==(const Finish&) const = default;
};

using Action = std::variant<Assign, Refresh, Lease, Ask, Merge, Publish, Discard, Expel, Retire,
                            Pause, SaveGlobal, Refill, Finish>;

}  // namespace archipelago::sync
