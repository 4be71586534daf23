#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sync/messages.h"

namespace archipelago::sync {

enum class LearnerState {
  vacant,   // waits for an island
  joining,  // has an island, does not hold every fragment yet: weight 0
  active,   // counts
  suspect,  // no report for suspect_after: not asked, not waited for
  lost,     // its island died or was expelled, and no spare was there to take its place
  retired,  // left on request, or had a guest's place
};

// Whether an island plays the learner.
constexpr bool is_alive(LearnerState state) {
  return state == LearnerState::joining || state == LearnerState::active ||
         state == LearnerState::suspect;
}

struct LearnerView {
  LearnerState state = LearnerState::vacant;
  int island = -1;
  int incarnation = -1;
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double step_seconds = 0;
  double loss = 0;
  bool diverged = false;            // the newest step of its present life
  std::int64_t diverged_steps = 0;  // less the sound ones since: a Refresh makes some of these
  Nanoseconds last_report = 0;
  std::vector<std::int32_t> held;  // (P) Report::held of its present life; empty before the first
  // For each fragment: tokens of this learner id at its last contribution that was merged. Their
  // mean is what of its work lives on in Theta: the next life goes on from there. Once the run is
  // complete, all its tokens.
  std::vector<std::int64_t> merged_tokens;
};

// Who plays which learner: islands, spares, lives, silence. Part of Machine.
class Membership {
 public:
  Membership(const Settings& settings, const Restored& restored);

  // An idle island: the home of its learner, or a spare. `clock`: the versions that a joiner must
  // hold before it counts.
  void add_island(int island, Nanoseconds now, const std::vector<std::int32_t>& clock,
                  std::vector<Action>& actions);

  // Whether the island is idle.
  bool is_spare(int island) const;

  // Whether a learner waits for an island.
  bool has_open_place() const;

  // The learner that a guest's place is made of next; and makes it: an open place that is gone
  // again with the island that gets it.
  int next_guest_place() const;
  void make_guest_place(int learner);

  // Gives the first open place to this island, if it is idle. Not after freeze().
  void place(int island, Nanoseconds now, const std::vector<std::int32_t>& clock,
             std::vector<Action>& actions);

  // The island is gone for good. Returns the learner that it played, which is to be lost().
  std::optional<int> remove_island(int island);

  // The learner has no island any more (died or expelled): its place is open, or gone where it was
  // a guest's.
  void lose(int learner);

  // Learners that were silent for too long by `now`: turns them into suspects and appends them to
  // `silent`, or to `expelled` when they are to be lost.
  void find_silent(Nanoseconds now, std::vector<int>& silent, std::vector<int>& expelled);

  // Lets the learner go: its island comes back as a spare when it says IslandReady.
  void expel(int learner, const std::string& reason, std::vector<Action>& actions);

  // The learner that retired from this island, where the island has not come back since and nobody
  // has taken up the learner's id.
  std::optional<int> leaver(int island) const;

  // A retired learner has stopped for good: what of its work lives on is settled.
  void close(int learner);

  // Changes M; no place is a guest's any more. Appends the learners that retire to `retired`.
  void scale(int learners, std::vector<int>& retired, std::vector<Action>& actions);

  // Gives spares to learner ids that have no island, then asks for what the pool lacks. No island
  // is given away after freeze().
  void fill(Nanoseconds now, const std::vector<std::int32_t>& clock, std::vector<Action>& actions);
  void freeze() { frozen_ = true; }

  // Everybody's silence counts from now on.
  void restart_patience(Nanoseconds now);

  // A sign of life of this incarnation. Returns whether the learner became active by it; false also
  // for one that is stale. `report`: null for a delivery.
  bool hear(int learner, int incarnation, Nanoseconds now, const Report* report);

  bool is_current(int learner, int incarnation) const;    // a living learner's present life
  bool is_last_life(int learner, int incarnation) const;  // the same, or of one that has retired
  // What it had trained of `tokens` tokens up to `at_tokens` has been merged into the fragment.
  void credit(int learner, int fragment, std::int64_t at_tokens, std::int64_t tokens);

  // The learner has trained so many tokens; whatever comes, it does not fall back behind them.
  void settle(int learner, std::int64_t tokens);

  // The run is complete: of what the living have trained nothing is to be trained again.
  void settle_living();

  // Where the learner's next life would go on.
  std::int64_t lasting_tokens(int learner) const;

  bool is_alive(int learner) const;
  bool is_leaving(int learner) const {
    return learner < static_cast<int>(lives_.size()) && lives_[learner].leaving;
  }
  // Its home island has neither come nor been lost.
  bool waits_for_home(int learner) const { return lives_[learner].waits_for_home; }

  // Whether all active learners have diverged, or did so for as many steps; false where there is
  // none.
  bool all_diverged() const;
  bool all_diverged_for(std::int64_t steps) const;

  // Whether every living learner is active: none joins, none is silent.
  bool all_alive_count() const;

  // Median recent seconds a step over active learners (xi); the last one known while none is.
  double step_seconds();

  const std::vector<LearnerView>& views() const { return views_; }
  // M: so many learners train where every place has its island.
  int wanted() const { return places_ - closed_; }
  // Of these, guests' places.
  int guest_places() const;
  int active() const { return active_; }
  std::int64_t total_tokens() const { return total_tokens_; }
  // Tokens since the start whose work has been merged, a mean over fragments.
  std::int64_t merged_tokens() const { return merged_work_ / settings_.fragments; }
  int losses() const { return losses_; }
  int rejoins() const { return rejoins_; }
  // No learner is too silent before this time; nothing: nobody is being watched.
  std::optional<Nanoseconds> next_check() const { return next_check_; }

 private:
  enum class IslandState { unseen, spare, playing, leaving, lost };
  struct Island {
    IslandState state = IslandState::unseen;
    int learner = -1;  // that it plays or has retired from
    int incarnation = -1;
  };
  // What LearnerView does not show of a learner's present life.
  struct Life {
    bool waits_for_home = false;  // its home island has neither come nor been lost
    bool rejoining = false;       // its life before was lost, and it is not active yet
    bool joined = false;          // held everything once: active when heard again
    bool reported = false;
    std::int64_t settled = 0;          // tokens below which it never falls back
    bool leaving = false;              // retired, but its island may still train
    bool guests_place = false;         // retired whenever nobody plays it
    std::vector<std::int32_t> target;  // the clock when it was assigned
    // (P) Of the learner id: tokens up to which all that was merged has been counted.
    std::vector<std::int64_t> counted;
  };

  Island& island_at(int island);
  bool is_open(int learner) const;
  std::optional<int> first_open() const;
  void assign(int learner, int island, Nanoseconds now, const std::vector<std::int32_t>& clock,
              std::vector<Action>& actions);
  void set_state(int learner, LearnerState state);
  void set_tokens(int learner, std::int64_t tokens);
  void take_report(int learner, const Report& report);
  Nanoseconds suspect_after() const;
  void watch(Nanoseconds deadline);
  void add_learner(bool waits_for_home);

  Settings settings_;
  std::vector<LearnerView> views_;
  std::vector<Life> lives_;
  std::vector<Island> islands_;
  std::vector<int> spares_;  // ascending
  int places_;               // learners from this number on are retired
  int closed_ = 0;           // places before it whose guest is gone
  int homes_;                // learners that have a home island of their number
  int requested_ = 0;        // islands that are to come: initial spares and refills
  bool frozen_ = false;
  int active_ = 0;
  std::int64_t total_tokens_ = 0;
  std::int64_t merged_work_ = 0;  // tokens, summed up over fragments
  int losses_ = 0;
  int rejoins_ = 0;
  std::optional<Nanoseconds> next_check_;
  bool step_seconds_stale_ = true;
  double step_seconds_ = 0;
  std::vector<double> scratch_;
};

}  // namespace archipelago::sync
