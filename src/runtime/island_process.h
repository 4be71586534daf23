#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "island/averaging.h"
#include "island/expert_exchange.h"
#include "island/island.h"
#include "runtime/checkpoint_writer.h"
#include "runtime/communication.h"
#include "runtime/energy.h"
#include "runtime/learner_state.h"
#include "runtime/run_folder.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// How an island's part in the job ended.
enum class IslandEnd {
  finished,  // the syncer said finish; nobody died
  finished_after_losses,
  syncer_lost,  // no syncer is left; the checkpoint is written
  left,         // by a signal; the checkpoint is written
};

// The life of an island's rank: asleep as a spare until an order makes it a learner, then inner
// steps until the next order. At every step boundary the leader decides from what its communication
// thread has taken in, tells the other ranks, and all do the same.
class IslandProcess {
 public:
  // `device`: what this rank computes on, and the share of its energy that it is charged with.
  // `communication`: on the leader only. References must outlive this.
  IslandProcess(const Setup& setup, const data::Dataset& dataset, const RunFolder& folder,
                const kernels::Device& device, double energy_share, island::Island& island,
                Communication* communication);
  ~IslandProcess();

  // From now on a stop signal to the leader ends the island's part in the run. The ranks of the
  // run's own job leave that to the syncer.
  void heed_signals() { heeds_signals_ = true; }

  IslandEnd run();

  // On the leader: whether the syncer has said that all is trained.
  bool all_is_trained() const { return paused_; }

 private:
  enum class Command : std::int32_t { wait, begin, rest, step, finish, abandon, leave };

  // What the leader tells the other ranks at a boundary.
  struct Plan {
    Command command = Command::wait;
    std::int32_t fragments = 0;  // that follow, to be received before the command is carried out
    std::int32_t learner = -1;
    std::int32_t incarnation = -1;
    std::int64_t tokens = 0;  // begin: where to go on
    std::int64_t run_tokens = 0;
    std::int32_t orderly = 0;  // finish
    std::int32_t leases = 0;   // 1: a lease follows
  };

  Plan decide();
  Command choose(const Inbox& inbox);
  bool is_new_order(const Inbox& inbox) const;
  void share(Plan& plan);
  void receive_fragments(const Plan& plan);
  void receive_lease(const Plan& plan);
  std::optional<checkpoint::Learner> saved_moments(int learner) const;
  void begin(const Plan& plan);
  void rest();
  void step();
  void say_last(link::Phase phase);
  void finish();

  void stage_asked();
  bool is_of_this_life(int learner, int incarnation) const;
  bool stage_leaving();
  void remember_faults(const std::vector<link::DownHeader>& faults);
  void post_report();
  void checkpoint_if_due();
  void start_checkpoint();
  void save_checkpoint();
  void tell_memory();

  const Setup& setup_;
  const data::Dataset& dataset_;
  const RunFolder& folder_;
  kernels::Device device_;
  island::Island& island_;
  Communication* communication_;
  std::int64_t memory_before_;  // resident bytes before the model was made

  EnergyMeter energy_;

  // Made with the first life; the state again with the first of another learner.
  std::shared_ptr<kernels::Kernels> kernels_;
  std::unique_ptr<island::Averaging> averaging_;
  std::optional<island::ExpertExchange> exchange_;  // where the island has several ranks
  std::unique_ptr<LearnerState> state_;
  link::Phase phase_ = link::Phase::ready;
  bool paused_ = false;
  bool heeds_signals_ = false;

  // Leader only.
  std::unique_ptr<CheckpointWriter> writer_;
  std::int64_t orders_ = 0;
  std::optional<link::DownHeader> order_;
  std::vector<WholeFragment> arrived_;
  std::optional<link::DownMessage> lease_;  // not followed yet
  std::int64_t followed_lease_ = 0;
  std::int64_t lease_tokens_ = 0;
  // (P) data of the versions held, where the processor works out differences.
  std::vector<std::shared_ptr<const link::Bytes>> bases_;
  Asks asks_;
  std::optional<link::FragmentHeader> leaving_;  // of the fragment that has been taken
  std::shared_ptr<const link::Bytes> leaving_base_;
  std::int64_t run_tokens_ = 0;
  double step_seconds_ = 0;
  double life_started_ = 0;
  std::int64_t life_steps_ = 0;
  double boundary_started_ = 0;
  double blocked_seconds_ = 0;
  double joules_ = 0;
  double slow_factor_ = 1;
  double slow_until_ = 0;
  std::optional<link::DownHeader> checkpoint_fault_;  // to come inside the next checkpoint
  bool report_changed_ = true;
  bool memory_told_ = false;
};

}  // namespace archipelago::runtime
