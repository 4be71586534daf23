#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/shards.h"
#include "sync/membership.h"
#include "sync/messages.h"

namespace archipelago::sync {

// Which learner of a group, whose learners train on the same data, trains on which shards, and how
// far they are. Part of Machine.
//
// Of a group of M learners the i-th starts with the shards s with s mod M = i. It changes hands in
// two steps, so that no two learners ever train on it: its holder is given a Lease without it, and
// only when the holder follows that one (or has left, or is dead) the shard is free to be leased to
// another, from where it was left. A learner has at most one Lease under way. What a life trained
// that was never merged is trained again: with the learner's count, its shards are set back
// (Membership::lasting_tokens).
class Leases {
 public:
  using Held = std::vector<data::ShardCursor>;

  // What a learner trains on.
  struct Tenure {
    Held held;                    // cursors as they were at `since`
    std::int64_t since = 0;       // tokens of the learner
    std::int64_t number = 0;      // of its newest Lease
    std::optional<Held> offered;  // the newest Lease, while it is not followed
    int incarnation = -1;         // the life that was told
  };

  // `cursors`: of a checkpoint, of any number of shards; empty: all are at their beginning. Throws
  // Error(bad_data) where learners, shards and windows do not fit together.
  Leases(const Settings& settings, int group, const std::vector<std::int64_t>& cursors,
         const Membership& membership);

  // One for each group.
  static std::vector<Leases> of_all_groups(const Settings& settings, const Restored& restored,
                                           const Membership& membership);
  static int group_of(const Settings& settings, int learner);

  // The learner's life is over, or it has left: all it held is set back to where `tokens` says.
  void rewind(int learner, std::int64_t tokens);

  // Returns whether the learner follows its newest Lease by this.
  bool follow(const LeaseFollowed& event);

  // Takes in what nobody holds any more, gives out what is free, and has learners give up what
  // others lack. Appends the leases that change.
  void balance(const Membership& membership, std::vector<Action>& actions);

  // (S) the cursor of every shard, if all lives ended now.
  std::vector<std::int64_t> cursors(const Membership& membership) const;

  int shards() const { return order_.count(); }
  const std::vector<Tenure>& tenures() const { return tenures_; }  // by learner
  const Held& free() const { return free_; }

 private:
  Held held_at(int learner, std::int64_t tokens) const;
  const Held& planned(int learner) const;
  void free_abandoned(const Membership& membership);
  void give_free();
  void take_from_rich(const Membership& membership);
  std::int64_t on_their_way(const Membership& membership) const;
  Held& plan(int learner);
  int receiver(int shard) const;
  std::size_t choose_to_give_up(const Held& held, std::size_t low) const;
  void tell(const Membership& membership, std::vector<Action>& actions);

  bool is_member(int learner) const;
  int home_of(int shard) const;

  int group_;
  std::vector<int> groups_;  // by learner
  data::Shards order_;
  std::int64_t sequence_tokens_;
  std::vector<int> homes_;  // the group's learners at the start
  std::vector<Tenure> tenures_;
  Held free_;

  // Scratch of balance().
  std::vector<int> holders_;                // who may hold shards
  std::vector<std::optional<Held>> plans_;  // by learner: what it shall hold
};

}  // namespace archipelago::sync
