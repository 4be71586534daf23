#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sync/leases.h"
#include "sync/membership.h"
#include "sync/messages.h"
#include "sync/rounds.h"

namespace archipelago::sync {

// The decisions of a run as a pure function of the events so far: no clock, thread, file, random
// device or communication. The same events give the same actions everywhere (docs/design.md, "One
// idea holds it together").
class Machine {
 public:
  // Throws Error(bad_data) where settings are out of range, or `restored` does not fit them.
  explicit Machine(const Settings& settings, const Restored& restored = {});

  // Takes one event that happened at `now` (never before the last one's time; an earlier time
  // counts as that) and appends what is to be done, in order. After Finish it appends nothing.
  void handle(Nanoseconds now, const Event& event, std::vector<Action>& actions);

  // When Tick is due; nothing: not before another event.
  std::optional<Nanoseconds> next_wakeup() const;

  std::int64_t rounds() const { return rounds_closed_; }
  const std::vector<std::int32_t>& versions() const { return versions_; }  // the clock
  const std::vector<LearnerView>& learners() const { return membership_.views(); }
  const std::vector<Leases>& leases() const { return leases_; }  // by group of learners
  // Shards that the data of this learner is dealt out to; 0 without data.
  int shards_for(int learner) const;
  int most_learners() const;  // that there are shards for
  // (S) where every data shard stands, if all lives ended now; empty without data.
  std::vector<std::int64_t> shard_cursors() const;
  std::int64_t total_tokens() const { return membership_.total_tokens(); }  // each token once
  // Tokens since the start whose work has been merged, a mean over fragments.
  std::int64_t merged_tokens() const { return membership_.merged_tokens(); }
  int losses() const { return membership_.losses(); }    // learners that died or were expelled
  int rejoins() const { return membership_.rejoins(); }  // lives that became active after a loss
  int wanted() const { return membership_.wanted(); }    // learners
  int guest_places() const { return membership_.guest_places(); }  // of these, made for guests
  bool ending() const { return phase_ != Phase::running; }
  bool finished() const { return phase_ == Phase::finished; }

 private:
  enum class Phase {
    running,
    draining,  // complete: the last rounds bring every fragment in
    stopping,  // early: open rounds close, no new ones
    finished,
  };

  void on(const IslandReady& event, std::vector<Action>& actions);
  void on(const GuestReady& event, std::vector<Action>& actions);
  void on(const IslandLost& event, std::vector<Action>& actions);
  void on(const Report& event, std::vector<Action>& actions);
  void on(const LeaseFollowed& event, std::vector<Action>& actions);
  void on(const Delivery& event, std::vector<Action>& actions);
  void on(const Merged& event, std::vector<Action>& actions);
  void on(const Tick& event, std::vector<Action>& actions);
  void on(const StopRequested& event, std::vector<Action>& actions);
  void on(const NobodyLeft& event, std::vector<Action>& actions);
  void on(const ScaleRequested& event, std::vector<Action>& actions);
  void on(const SyncerReplaced& event, std::vector<Action>& actions);

  void ask_again(std::vector<Action>& actions);
  void balance_leases(std::vector<Action>& actions);
  void rewind_leases(int learner);
  void fill(std::vector<Action>& actions);
  void see_off(int learner, std::vector<Action>& actions);
  void lose(int learner, std::vector<Action>& actions);
  void welcome(int learner, std::vector<Action>& actions);
  void stop(Outcome outcome, const std::string& reason);
  void start_draining(std::vector<Action>& actions);
  void close_rounds(bool deadlines, std::vector<Action>& actions);
  bool is_due(Round& round, bool deadlines, std::vector<Action>& actions);
  void refresh(int learner, int incarnation, std::int64_t round, std::vector<Action>& actions);
  void update_grace(Round& round);
  std::optional<Nanoseconds> repetition(const Round& round) const;
  Nanoseconds ask_patience() const;
  std::optional<Nanoseconds> deadline(const Round& round) const;
  void count_closed(std::vector<Action>& actions);
  void save_if_due(std::vector<Action>& actions);
  bool save_is_due() const;
  void open_rounds(std::vector<Action>& actions);
  bool has_room_for_round() const;
  Nanoseconds next_opening() const;
  void finish_if_over(std::vector<Action>& actions);
  int quorum() const;

  Settings settings_;
  Membership membership_;
  std::vector<Leases> leases_;  // by group of learners
  Rounds rounds_;
  Phase phase_ = Phase::running;
  Nanoseconds now_ = 0;
  std::vector<std::int32_t> versions_;
  std::int64_t last_opened_;  // number of the newest round
  std::optional<Nanoseconds> last_opening_;
  std::int64_t last_drained_ = 0;             // number of the last round of the draining phase
  std::optional<Nanoseconds> stop_deadline_;  // of all rounds, once a stop was requested
  Outcome stop_outcome_ = Outcome::stopped;
  std::string stop_reason_;
  std::int64_t rounds_closed_;
  std::int64_t rounds_saved_;            // rounds closed at the last SaveGlobal
  Nanoseconds saved_at_ = 0;             // when that was
  std::optional<double> merge_seconds_;  // running mean: merge and delivery
  double step_seconds_ = 0;              // xi; 0: not known
  std::vector<std::int64_t> refreshed_;  // by learner: no Refresh for rounds up to this one
  std::vector<int> silent_;              // scratch
  std::vector<int> expelled_;            // scratch
};

}  // namespace archipelago::sync
