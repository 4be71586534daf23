#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "evaluate/score.h"
#include "island/island.h"
#include "link/link.h"
#include "link/replica.h"
#include "runtime/arrivals.h"
#include "runtime/chaos.h"
#include "runtime/checkpoint_words.h"
#include "runtime/checkpoint_writer.h"
#include "runtime/cuts.h"
#include "runtime/fragment_sender.h"
#include "runtime/global_state.h"
#include "runtime/merge_statistics.h"
#include "runtime/merge_worker.h"
#include "runtime/mirror.h"
#include "runtime/other_syncers.h"
#include "runtime/rejoins.h"
#include "runtime/run_folder.h"
#include "runtime/run_record.h"
#include "runtime/run_statistics.h"
#include "runtime/scaling.h"
#include "runtime/setup.h"
#include "runtime/silences.h"
#include "runtime/validator.h"
#include "sync/machine.h"
#include "sync/tape.h"

namespace archipelago::runtime {

// What the syncer starts from.
struct SyncerStart {
  std::optional<checkpoint::Global> restored;  // with --resume
  // The members of each peer's island; none of one that is gone.
  std::vector<std::vector<island::Member>> islands;
  const Mirror* mirror = nullptr;  // a standby that takes over: what it knows
  std::int64_t term = 0;           // how many syncers there were before
  OtherSyncers* others = nullptr;  // that merge beside this one; outlive it
  // How a state does on the validation split; empty: that is not asked for while the run goes on.
  std::function<evaluate::Score(const GlobalState&)> validate = {};
  StruckFaults struck = {};  // by earlier starts; without a mirror
};

// The syncer: turns what the links bring into events of the state machine and does what it says. It
// never waits for a peer.
class SyncerProcess {
 public:
  // `standby`: is told everything first; null without one. `refill`: asked to bring so many new
  // islands; they are announced by add_island(). References must outlive this.
  SyncerProcess(const Setup& setup, const RunFolder& folder, link::SyncerEnd& link,
                link::ReplicaSender* standby, const SyncerStart& start,
                std::function<void(int)> refill);

  // A peer that the link got after the start; `members` of its island: none where it is gone. From
  // outside the job: a guest.
  enum class Origin { job, outside };
  void add_island(std::vector<island::Member> members, Origin origin = Origin::job);

  // One turn of the loop. False: the run is over, all learners have said goodbye.
  bool turn();
  // So long after the turn before.
  void note_gap(double seconds);

  // Writes the last checkpoint's outcome, how the model does on the validation split and
  // summary.json, then lets the islands go. The exit code.
  int conclude(const evaluate::Score& validation);

  // Every fragment, once the run is over and did not fail.
  const GlobalState& state() const { return whole_ ? *whole_ : state_; }
  bool failed() const { return failure_.has_value(); }
  // Whether all ranks may leave MPI together: none has died, and none is being spawned.
  bool orderly() const {
    return lost_islands_ == 0 && !spawns_ && term_ == 0 &&
           (standby_ == nullptr || !standby_->lost()) && (others_ == nullptr || !others_->lost());
  }

 private:
  using Key = Arrivals::Key;

  struct IslandBook {
    std::vector<island::Member> members;
    bool lost = false;
    StandingOrder order;
    bool to_reconcile = false;  // its first report to a syncer that took over is awaited
    bool ready_told = false;
    bool is_guest = false;
    int learner = -1;  // that it plays
    int incarnation = -1;
    int leased_to = -1;           // the learner that it plays or played last
    std::int64_t lease_told = 0;  // number of the last lease that it is known to follow
    std::int64_t row_step = -1;   // of the last metrics row
    double row_blocked = 0;
    double row_joules = 0;
    bool finished = false;
    link::Report report;
    double heard = 0;  // when it was read
    // What had been sent when mend() last looked.
    struct Sent {
      std::int64_t orders = 0;
      std::vector<std::int32_t> versions;
      bool paused = false;
      bool finishing = false;
      std::int64_t lease = 0;
    } sent;
    double next_mend = 0;
  };

  struct OpenMerge {
    int fragment;
    std::vector<Key> inputs;
    std::vector<int> contributors;
    double opened;
  };

  // The standby, and being one that took over (syncer_standby.cc).
  void take_over(const Mirror& mirror);
  void continue_tape(const Mirror& mirror);
  void reconcile(int peer, const link::Report& report);
  void replicate();
  void replicate_fragment(int fragment);
  void begin_contributions();
  void replicate_entry(const std::string& entry);
  void publish_acknowledged();

  // The syncers that merge beside this one (syncer_others.cc).
  void tell_others(const std::string& entry);
  void listen_to_others();
  void take_part(link::ReplicaMessage part);
  void tell_deliveries();
  void give_up(const std::string& reason);

  // What comes in.
  void listen();
  void on_report(int peer, const link::Report& report);
  void on_fragment(const Arrivals::Taken& taken);
  void take_merged();
  void end_round(const sync::Merged& event);
  void watch_for_stop();
  void watch_for_nobody();
  void note_launcher();
  void find_dead_spares();
  void lose_island(int peer, const std::string& reason);
  void watch_for_scale();
  void inflict_chaos();                             // syncer_chaos.cc
  void inflict(const Fault& fault);                 // syncer_chaos.cc
  void mend(int peer, const link::Report& report);  // syncer_chaos.cc
  void tell(const sync::Event& event);
  void note_silences(const sync::Event& event);  // syncer_silence.cc

  // More or fewer learners (syncer_scale.cc).
  void scale(int learners);
  void note_wanted();
  std::optional<std::string> why_not_scale(int learners) const;  // the run cannot have so many

  // What the machine wants done.
  void act(const sync::Assign& action);
  void act(const sync::Refresh& action);
  void act(const sync::Lease& action);
  void act(const sync::Ask& action);
  void act(const sync::Merge& action);
  void act(const sync::Publish& action);
  void act(const sync::Discard& action);
  void act(const sync::Expel& action);
  void act(const sync::Retire& action);
  void act(const sync::Pause& action);
  void act(const sync::SaveGlobal& action);
  void act(const sync::Refill& action);
  void act(const sync::Finish& action);

  std::optional<int> peer_of(int learner, int incarnation) const;
  void publish(int fragment);
  void give_order(int peer, link::DownHeader header);
  void send_lease(int peer);
  void send_pause(int peer);
  void send_finish(int peer);
  void end_life(int peer);
  void note_rejoins();
  void note_lease(IslandBook& book, const link::Report& report);
  void add_step_row(IslandBook& book, const link::Report& report);
  void save(const std::shared_ptr<checkpoint::Global>& file, const GlobalState& state);
  void start_waiting_save();
  void note_saved();
  void note_validation(double patience = 0);
  bool goodbyes_done();
  void dismiss_islands();

  // What is told of the run (syncer_report.cc).
  struct Verdict {
    const char* outcome;  // of summary.json
    const char* state;    // of status.json
    std::string reason;
    ExitCode code;
  };
  Verdict verdict(bool saved, const evaluate::Score& validation) const;
  double merged_share() const;
  enum class Processes { there, gone };
  void write_status(const std::string& state, Processes processes = Processes::there);
  void log_progress();
  std::string state_name() const;

  double elapsed() const;
  sync::Nanoseconds elapsed_ns() const;

  const Setup& setup_;
  link::SyncerEnd& link_;
  const RunFolder& folder_;
  link::ReplicaSender* standby_;
  OtherSyncers* others_;
  std::function<void(int)> refill_;
  bool spawns_ = false;  // has asked for new islands
  std::int64_t term_;

  double started_;
  RunRecord record_;
  sync::TapeChain chain_;
  RunStatistics statistics_;
  MergeStatistics merge_statistics_;
  Scaling scaling_;
  GlobalState state_;
  MergeWorker merger_;
  std::mutex saved_mutex_;
  std::vector<SavedFile> saved_;  // by the writer, not told yet
  CheckpointWriter writer_;
  struct WaitingSave {
    std::string what;
    std::function<void()> write;
  };
  std::optional<WaitingSave> waiting_save_;
  Validator validator_;
  FragmentSender sender_;
  Arrivals arrivals_;
  sync::Machine machine_;
  Chaos chaos_;
  Silences silences_;

  std::vector<IslandBook> islands_;
  std::vector<sync::Action> actions_;
  std::map<std::int64_t, OpenMerge> merging_;    // by round
  std::map<std::int64_t, double> round_opened_;  // first ask of each open round
  struct Unpublished {
    std::int64_t number;  // of the replica message that has to be acknowledged first
    int fragment;
    double deadline;
  };
  std::vector<Unpublished> unpublished_;
  Cuts cuts_;
  std::optional<GlobalState> whole_;        // the last one that was collected
  std::deque<sync::Delivery> undisclosed_;  // of others: the learner's report is not there yet
  std::optional<std::string> failure_;
  std::int64_t replicated_ = 0;
  double next_heartbeat_ = 0;
  Rejoins rejoins_;
  int lost_islands_ = 0;
  bool paused_ = false;
  bool launcher_gone_ = false;
  double looked_at_spares_ = 0;
  std::int64_t tokens_at_start_ = 0;
  std::int64_t merged_at_start_ = 0;  // tokens

  double last_turn_ = 0;
  double largest_gap_ = 0;
  std::optional<double> nobody_since_;  // every island is lost
  double next_look_ = 0;                // at the stop file and signals
  double next_status_ = 0;
  double next_progress_ = 0;
  std::int64_t progress_tokens_ = 0;
  double progress_time_ = 0;

  std::optional<sync::Finish> finish_;
  double goodbye_deadline_ = 0;
  double ended_ = 0;
};

}  // namespace archipelago::runtime
