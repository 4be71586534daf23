#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace archipelago::sync {

// Time since the start of the run as the driver tells it: real, virtual or read from a tape.
using Nanoseconds = std::int64_t;

// What the machine needs to know of a run; derived from config::RunConfig.
struct Settings {
  int learners = 3;                   // M, learner ids 0 .. M-1
  int fragments = 24;                 // P
  double interval = 24;               // H, inner steps between two merges of one fragment
  double overlap = 2;                 // tau, inner steps an exchange may take
  int quorum = 1;                     // K
  double grace = 0.75;                // gamma
  Nanoseconds grace_cap = 60'000'000'000;
  Nanoseconds suspect_after = 5'000'000'000;   // without a report
  Nanoseconds expel_after = 30'000'000'000;    // without a report
  double outlier = 10;                // times the median norm; 0: no check
  int max_open_rounds = 2;            // slots of a pair (design.md, "The exchange")
  int spares = 1;                     // size of the pool of spares that Refill keeps up
  std::int64_t token_budget = 0;      // the run is complete when all learners' tokens reach it
  std::int64_t batch_tokens = 1;      // tokens of one inner step of a learner
  std::int64_t checkpoint_rounds = 50;
};

// What a global checkpoint brings back. Empty: a fresh run.
struct Restored {
  std::int64_t round = 0;                      // rounds closed so far
  std::vector<std::int32_t> versions;          // (P)
  std::vector<std::int32_t> incarnations;      // (M) the next life gets a higher one
  std::vector<std::int64_t> merged_tokens;     // (M, P) see LearnerView::merged_tokens
};

// ---- Events: what the driver tells -------------------------------------------------------------

// An idle island (all its ranks are up, it plays no learner) waits to be given one.
struct IslandReady { int island; };

// Nothing will come from this island again (an MPI failure on its pair, a lost host).
struct IslandLost { int island; std::string reason; };

// A learner's state, sent at every inner-step boundary and at least every heartbeat; only the latest
// matters. held[p]: version of fragment p that it has received in full; -1: none.
struct Report {
  int learner;
  int incarnation;
  std::int64_t step;        // inner steps of this learner id over all its lives
  std::int64_t tokens;      // tokens trained by this learner id over all its lives, counted once
  double step_seconds;      // recent seconds an inner step; 0: not known yet
  double loss;              // of the last step
  std::vector<std::int32_t> held;
};

// A whole, checksummed fragment of a learner has arrived; the driver keeps its data until a Merge or
// Discard names it.
struct Delivery {
  int learner;
  int incarnation;
  std::int64_t round;
  int fragment;
  std::int32_t base_version;
  std::int64_t steps;       // c_steps: inner steps since the learner received this fragment
  std::int64_t tokens;      // c_tokens: tokens since then
  std::int64_t at_tokens;   // the learner's Report::tokens when the fragment was copied
  double norm;              // ||Theta_p - theta_p||, not finite if any element is not
};

struct Merged { std::int64_t round; double seconds; };    // the Merge of this round is done
struct Tick {};                                           // next_wakeup() has come
struct StopRequested { std::string reason; };             // end early, resumable
struct ScaleRequested { int learners; };                  // the wanted number of learners from now on

using Event = std::variant<IslandReady, IslandLost, Report, Delivery, Merged, Tick, StopRequested,
                           ScaleRequested>;

// ---- Actions: what the driver shall do -----------------------------------------------------------

// The island becomes this learner's next life: it reads a checkpoint, takes the fragments that
// Refresh sends, and goes on with its data where `tokens` says.
struct Assign { int island; int learner; int incarnation; std::int64_t tokens; };

// Send this learner every fragment at its current version (a joiner, or one that must take the global
// state).
struct Refresh { int learner; int incarnation; };

// Ask the learner for its copy of the fragment.
struct Ask { int learner; int incarnation; std::int64_t round; int fragment; };

struct Contribution { int learner; int incarnation; double weight; };

// Merge the contributions' data into the fragment (merge.h), then tell Merged.
struct Merge { std::int64_t round; int fragment; std::vector<Contribution> contributions; };

// Send the merged fragment to every learner that is joining, active or suspect.
struct Publish { std::int64_t round; int fragment; std::int32_t version; };

// Drop the delivered data of (learner, incarnation, round).
struct Discard {
  int learner;
  int incarnation;
  std::int64_t round;
  int fragment;
  std::string reason;       // late, stale incarnation, not asked, duplicate, not finite, outlier, ...
};

// The learner's place is given away: tell its island to become a spare when it can hear again.
struct Expel { int island; int learner; int incarnation; std::string reason; };

// The learner leaves on request: its island checkpoints and becomes a spare.
struct Retire { int island; int learner; int incarnation; };

// Training is complete: learners stop stepping, answer the last asks (also with c_steps = 0), wait.
struct Pause {};

// Write a global checkpoint: no merge is under way, so it is a consistent cut.
struct SaveGlobal { std::int64_t round; };

// The pool of spares is below its size by this many.
struct Refill { int islands; };

enum class Outcome { complete, stopped, no_learners };
struct Finish { Outcome outcome; std::string reason; };   // always the last action

using Action = std::variant<Assign, Refresh, Ask, Merge, Publish, Discard, Expel, Retire, Pause,
                            SaveGlobal, Refill, Finish>;

// ---- The machine -----------------------------------------------------------------------------------

enum class LearnerState {
  vacant,    // waits for an island
  joining,   // has an island, does not hold every fragment at the current clock yet: weight 0
  active,    // counts
  suspect,   // no report for suspect_after: not asked, not waited for
  lost,      // its island died or was expelled, and no spare was there to take its place
  retired,   // left on request
};

struct LearnerView {
  LearnerState state = LearnerState::vacant;
  int island = -1;
  int incarnation = -1;
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double step_seconds = 0;
  double loss = 0;
  Nanoseconds last_report = 0;
  // For each fragment: tokens of this learner id at its last contribution that was merged. Their mean
  // is what of its work lives on in Theta: the next life goes on from there.
  std::vector<std::int64_t> merged_tokens;
};

// The decisions of a run as a pure function of the events so far: no clock, thread, file, random
// device or communication. The same events give the same actions everywhere (docs/design.md, "One
// idea holds it together").
class Machine {
 public:
  explicit Machine(const Settings& settings, const Restored& restored = {});

  // Takes one event that happened at `now` (never before the last one's time; an earlier time counts
  // as that) and appends what is to be done, in order. After Finish it appends nothing.
  void handle(Nanoseconds now, const Event& event, std::vector<Action>& actions);

  // When Tick is due; nothing: not before another event.
  std::optional<Nanoseconds> next_wakeup() const;

  std::int64_t rounds() const;                        // rounds closed
  const std::vector<std::int32_t>& versions() const;  // the clock
  const std::vector<LearnerView>& learners() const;
  std::int64_t total_tokens() const;                  // over all learners, each token once
  int losses() const;                                 // learners lost so far (died or expelled)
  int rejoins() const;                                // later lives that became active
  bool finished() const;
};

}  // namespace archipelago::sync
