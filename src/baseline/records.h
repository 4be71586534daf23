#pragma once

#include <cstdint>
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

  // Training is over: what is waited for after it does not count.
  void end();

  // Trained by all learners so far.
  std::int64_t tokens() const;

  // Writes the last status and the summary; the exit code that it holds.
  int conclude(const Ending& ending);

 private:
  link::Report report_of(const std::vector<RollEntry>& entries, int learner) const;
  void write_status(const std::string& state);
  void log_progress();

  const runtime::Setup& setup_;
  std::vector<std::vector<island::Member>> islands_;
  double started_;
  double ended_ = 0;
  runtime::RunRecord record_;
  runtime::RunStatistics statistics_;
  std::vector<link::Report> reports_;  // the last of each learner
  std::int64_t bytes_up_ = 0;
  std::int64_t bytes_down_ = 0;
  std::int64_t rounds_ = 0;
  double next_status_ = 0;
  double next_progress_ = 0;
  double progress_time_;
  std::int64_t progress_tokens_ = 0;
};

}  // namespace archipelago::baseline
