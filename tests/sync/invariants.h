#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sync/machine.h"

namespace archipelago::sync {

// Watches a machine from outside, event by event, and keeps its own account of what it should do.
class Invariants {
 public:
  Invariants(const Settings& settings, const Restored& restored, const Machine& machine);

  // To be called after each handle(). Returns what is wrong; empty: nothing.
  std::string check(Nanoseconds now, const Event& event, const std::vector<Action>& actions);

  // To be called after the last event.
  std::string check_end() const;

  std::int64_t merges() const { return merges_; }

 private:
  using Key = std::tuple<int, int, std::int64_t>;  // learner, incarnation, round
  struct Life {
    int incarnation = -1;
    bool alive = false;
    bool retired = false;  // and its island has not left yet
    bool joined = false;
    int island = -1;
    Nanoseconds heard = 0;
    std::vector<std::int32_t> target;
    std::optional<std::int64_t> step = {};  // of its newest report
    double loss = 0;                        // of that
    bool diverged = false;
    bool gave_unsound = false;  // its latest fragment that was taken
    bool has_diverged = false;  // ever
  };
  struct OpenRound {
    int fragment = 0;
    Nanoseconds opened = 0;
    bool merging = false;
    std::set<std::pair<int, int>> asked;  // learner, incarnation
    std::map<int, Delivery> taken;        // by learner
    std::set<int> refused;
    std::set<int> was_gone;  // suspects for some time
    bool nothing_new = false;
    std::optional<Nanoseconds> earliest;  // end of its grace window
    std::optional<Nanoseconds> latest;    // the same, from when no checkpoint held it back
  };

  void note(Nanoseconds now, const Event& event, const std::vector<Action>& actions);
  bool may_count(int learner, const Delivery& delivery);
  bool was_alone(const Delivery& delivery, std::int32_t missed) const;
  void note_delivery(Nanoseconds now, const Delivery& delivery, const std::vector<Action>& actions);
  void expect(bool holds, const std::string& what);
  Life& life(int learner);
  void note_ready(int island);
  void note_growth(int guest, bool had_retired, const std::vector<Action>& actions);
  void end_life(int learner);
  void drop(const Key& key);

  void take(Nanoseconds now, const Assign& action);
  void take(Nanoseconds now, const Refresh& action);
  void take(Nanoseconds now, const Lease& action);
  void take(Nanoseconds now, const Ask& action);
  void take(Nanoseconds now, const Merge& action);
  void take(Nanoseconds now, const Publish& action);
  void take(Nanoseconds now, const Discard& action);
  void take(Nanoseconds now, const Expel& action);
  void take(Nanoseconds now, const Retire& action);
  void take(Nanoseconds now, const Pause& action);
  void take(Nanoseconds now, const SaveGlobal& action);
  void take(Nanoseconds now, const Refill& action);
  void take(Nanoseconds now, const Finish& action);

  void close_silent();
  void check_shards();
  bool end_retirement(int island);
  void check_grace(Nanoseconds now, bool tick);
  void check_views(Nanoseconds now, bool tick);
  double step_seconds() const;
  int wanted() const { return places_ - static_cast<int>(empty_places_.size()); }
  int quorum() const;
  bool nobody_is_sound() const;
  bool save_is_due(Nanoseconds now) const;

  Settings settings_;
  const Machine& machine_;
  std::vector<std::int32_t> versions_;
  std::vector<Life> lives_;
  std::map<int, std::vector<double>> merged_steps_;  // by fragment: mean of each merge so far
  std::map<Key, int> held_;                          // deliveries whose data the driver holds
  std::map<std::int64_t, OpenRound> rounds_;
  std::set<int> idle_;  // islands that wait
  std::set<int> gone_;  // islands that were lost
  std::int64_t last_round_ = 0;
  std::optional<Nanoseconds> last_opening_;
  double xi_ = 0;
  std::optional<double> merge_seconds_;
  int merging_ = 0;
  int places_;                  // learners from this number on are not wanted
  std::set<int> guest_places_;  // of these, until they are asked for
  std::set<int> empty_places_;  // of these, those whose guest is gone: not wanted
  std::int64_t closed_ = 0;
  std::int64_t saved_ = 0;
  Nanoseconds saved_at_ = 0;
  Nanoseconds replaced_ = -1;  // when the syncer was
  bool paused_ = false;
  bool stopping_ = false;
  bool finished_ = false;
  std::int64_t merges_ = 0;
  std::int64_t untold_sequences_ = 0;  // that the restored tokens stand for and the shards do not
  std::string wrong_;
};

}  // namespace archipelago::sync
