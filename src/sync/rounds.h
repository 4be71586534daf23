#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sync/membership.h"
#include "sync/messages.h"

namespace archipelago::sync {

// One learner's part in a round.
struct Answer {
  enum class State {
    not_asked,
    waiting,    // asked and waited for
    gone,       // asked, no longer waited for
    delivered,  // its data is held for the merge
    refused,    // answered with what cannot be merged
  };
  State state = State::not_asked;
  int incarnation = -1;
  double weight = 0;
  double norm = 0;  // of the change, for each inner step that it took
  double loss = 0;  // the highest of these steps
  std::int64_t steps = 0;
  std::int64_t at_tokens = 0;
  std::int64_t tokens = 0;
};

// One merge of one fragment, from Ask to Merged.
struct Round {
  std::int64_t number = 0;
  int fragment = 0;
  Nanoseconds opened = 0;
  Nanoseconds next_ask = 0;  // while the quorum is not there
  bool merging = false;
  std::optional<Nanoseconds> grace_end;  // set while the quorum is there
  std::vector<Answer> answers;           // by learner id
  int waiting = 0;                       // answers in state waiting
  int delivered = 0;                     // answers in state delivered
  int refused = 0;                       // answers in state refused
};

// The rounds that are open or being merged, and what learners have given to them. Part of Machine.
class Rounds {
 public:
  explicit Rounds(const Settings& settings);

  Round& open(std::int64_t number, int fragment, Nanoseconds now, int learners);
  void ask(Round& round, int learner, int incarnation, std::vector<Action>& actions);

  // Repeats the Ask to those that are waited for: it, or the answer, may have been lost on its way.
  void ask_again(Round& round, std::vector<Action>& actions);

  // A learner that counts (again) while the round lacks its quorum is asked, or, where it has been
  // asked already, waited for again.
  void invite(Round& round, int learner, int incarnation, std::vector<Action>& actions);

  // The learner is not waited for any more.
  void excuse(int learner);

  // The learner's life is over: what it gave to open rounds is dropped.
  void drop_life(int learner, int incarnation, std::vector<Action>& actions);

  // Takes the delivery into its open round, or refuses it. `version`: the clock of its fragment.
  // Returns why it is refused; empty: taken. What is_unsound() is the learner's own state, which a
  // Refresh mends.
  std::string take(const Delivery& delivery, std::int32_t version, std::int64_t last_opened);
  static bool is_unsound(const std::string& refusal);

  // Learners of the round that have diverged (their newest step, or one of those that the fragment
  // holds; with finite losses only as long as another learner is sound), or whose norm is
  // `settings.outlier` times the median norm of the others in the round, where there are two or
  // more, else of recent merges of this fragment, where there are three or more. Marks them as
  // refused. The result lives until the next call.
  struct Refusal {
    int learner;
    const char* reason;
  };
  const std::vector<Refusal>& refuse_unsound(Round& round,
                                             const std::vector<LearnerView>& learners);

  // Ends a round without a merge: what was delivered is dropped for this reason.
  void abandon(Round& round, const std::string& reason, std::vector<Action>& actions);

  // Asks every active learner, as if the round had just been opened: nothing is held for it.
  void restart(Round& round, Nanoseconds now, const std::vector<LearnerView>& learners,
               std::vector<Action>& actions);

  // Turns an open round into a Merge of what has weight and drops the rest. Returns whether
  // anything has weight; if not, the round is over.
  bool start_merge(Round& round, std::vector<Action>& actions);

  // Remembers what a merge was made of for refuse_unsound() and take().
  void remember(const Round& round);

  void remove(const Round& round);
  Round* find(std::int64_t number);
  bool holds_fragment(int fragment) const;
  std::vector<Round>& all() { return rounds_; }
  const std::vector<Round>& all() const { return rounds_; }
  int merging() const { return merging_; }

 private:
  void note_soundness(int learner, bool is_sound);
  bool is_sound(int learner, const LearnerView& view) const;
  bool has_diverged(const Answer& answer, int learner,
                    const std::vector<LearnerView>& learners) const;
  bool was_too_long_alone(const Delivery& delivery, std::int32_t version) const;
  double median(std::vector<double>& values) const;
  void refuse(Round& round, int learner, const char* reason);
  void refuse_outliers(Round& round);

  Settings settings_;
  std::vector<Round> rounds_;  // in the order in which they were opened
  std::vector<Round> unused_;  // keeps the memory of removed rounds
  int merging_ = 0;
  // Of a fragment's latest merges, the newest last.
  struct History {
    std::vector<double> norms;  // medians
    std::vector<double> steps;  // means
  };
  std::vector<History> history_;    // by fragment
  std::vector<bool> gave_unsound_;  // by learner: a step that its latest fragment holds diverged
  std::vector<double> scratch_;
  std::vector<int> outliers_;
  std::vector<Refusal> refusals_;
};

}  // namespace archipelago::sync
