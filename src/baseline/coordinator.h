#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "baseline/elastic_members.h"
#include "baseline/elastic_messages.h"
#include "baseline/rank_links.h"
#include "baseline/records.h"
#include "island/member.h"
#include "mpi/session.h"
#include "runtime/chaos.h"
#include "runtime/job.h"

namespace archipelago::baseline {

// Rank 0 of elastic data-parallel training: begins its epochs (elastic_messages.h), keeps the run's
// records, carries out the chaos plan, and saves the trained model. It trains nothing, and takes no
// part in what the others exchange.
class Coordinator {
 public:
  // `islands`: each one's ranks. The job must outlive this.
  Coordinator(runtime::Job& job, std::vector<std::vector<island::Member>> islands);

  // To the end of the run; the exit code. Throws Error(internal) when every learner has died, or
  // when ranks that should hold the same parameters don't.
  int run();

  // How to end the process after it.
  mpi::Ending ending() const;

 private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  bool poll();
  void lose(int rank);
  void take(int rank, const Answer& answer);
  void take_step(int rank, const Answer& answer);

  void regroup();
  bool all_have_answered() const;
  void begin_epoch();
  OrderHeader place_to_begin(const std::vector<RingMember>& ring);

  void look_around();
  void ask_to_stop(const char* why, bool diverged);
  void inflict_chaos();
  std::vector<sync::LearnerView> views() const;

  bool all_have_finished() const;
  std::vector<float> collect_parameters();
  void dismiss();
  [[noreturn]] void give_up();

  void tell_of_spares();
  void begin_life(int learner);

  runtime::Job& job_;
  std::vector<std::vector<island::Member>> islands_;
  ElasticMembers members_;
  RankLinks links_;
  Records records_;
  runtime::Chaos chaos_;

  int epoch_ = 0;
  bool in_epoch_ = false;  // else its answers are being waited for
  bool regroup_is_due_ = true;
  std::map<int, Answer> answers_;     // by rank: to this epoch's regroup
  std::map<int, Answer> finished_;    // by rank, of this epoch
  std::map<int, RollEntry> entries_;  // by rank: of its newest step
  std::map<int, double> lost_since_;  // by learner that does not count (again) yet
  std::int64_t steps_ = 0;            // of the furthest rank
  std::int64_t run_tokens_ = 0;
  // When the data was dealt out to the present learners.
  int dealt_learners_ = 0;
  std::int64_t dealt_steps_ = 0;
  std::int64_t dealt_sequences_ = 0;

  bool stop_ = false;
  bool diverged_ = false;
  int diverged_steps_ = 0;  // of single learners, in a row
  double next_look_ = 0;
  bool tape_has_report_ = false;
};

}  // namespace archipelago::baseline
