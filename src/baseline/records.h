#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baseline/method.h"
#include "baseline/roll.h"
#include "evaluate/score.h"
#include "island/member.h"
#include "runtime/run_folder.h"
#include "runtime/run_record.h"
#include "runtime/run_statistics.h"
#include "runtime/setup.h"

namespace archipelago::baseline {

// How a run without a syncer ended.
struct Ending {
  bool complete = false;  // else stopped early
  bool diverged = false;
  evaluate::Score validation;
  bool saved = false;  // the last checkpoint, or there is nothing worth it
};

// The files that the first rank writes about the run, with the fields that runs with a syncer have
// (docs/design.md, "A run's folder").
class Records {
 public:
  // `islands`: each learner's ranks. References must outlive this.
  Records(const runtime::Setup& setup, const runtime::RunFolder& folder,
          std::vector<std::vector<island::Member>> islands);

  // The learners' steps so far, from the entries of all ranks.
  void add(const std::vector<RollEntry>& entries);
  void add(const RoundRow& row);

  // The newest step of one learner, and of all what they have sent and received.
  void add_step(const link::Report& report);
  void set_bytes(std::int64_t up, std::int64_t down);
  // Writes status and progress where it is time to.
  void update();

  // ---- Where learners die and come back.

  void lose(int learner);
  // An island takes the learner's place.
  void begin_life(int learner, std::vector<island::Member> island, int incarnation);
  // A lost learner counts again, so long after its loss.
  void rejoin(int learner, double seconds);
  void set_spares(std::vector<std::vector<island::Member>> spares);
  // Trained by all, where that isn't the sum of what each has.
  void set_tokens(std::int64_t tokens) { tokens_ = tokens; }
  // A line of events.jsonl without its time.
  void add_event(nlohmann::json event);

  // Since the start of the run, and since the first step (0 before).
  double seconds() const;
  double seconds_of_training() const;

  // Training is over: what is waited for after it does not count.
  void end();

  // Trained by all learners so far.
  std::int64_t tokens() const;

  // Writes the last status and the summary; the exit code that it holds.
  int conclude(const Ending& ending);

 private:
  // Who plays a learner.
  struct Place {
    std::vector<island::Member> members;  // empty: nobody any more
    int incarnation = 0;
    bool joining = true;  // it has not made a step yet
  };

  double mean_learners() const;
  std::vector<link::Report> living_reports() const;
  nlohmann::json learners_of_status(bool over) const;
  void write_status(const std::string& state);
  void log_progress();

  const runtime::Setup& setup_;
  double loss_limit_;
  std::vector<Place> places_;  // by learner
  std::vector<std::vector<island::Member>> spares_;
  double started_;
  double ended_ = 0;
  runtime::RunRecord record_;
  runtime::RunStatistics statistics_;
  std::vector<link::Report> reports_;  // the last of each learner
  std::optional<std::int64_t> tokens_;
  int losses_ = 0;
  std::vector<double> rejoin_seconds_;
  std::int64_t bytes_up_ = 0;
  std::int64_t bytes_down_ = 0;
  std::int64_t rounds_ = 0;
  double next_status_ = 0;
  double next_progress_ = 0;
  double progress_time_;
  std::int64_t progress_tokens_ = 0;
};

// A learner's report: its leader's entry with the mean loss of all, which are its island's ranks in
// order.
link::Report report_of(std::span<const RollEntry> entries, int learner, int incarnation);

}  // namespace archipelago::baseline
