#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "emulate/island.h"
#include "emulate/outcome.h"
#include "emulate/outside.h"
#include "runtime/arrivals.h"
#include "runtime/chaos.h"
#include "runtime/fragment_sender.h"
#include "runtime/global_state.h"
#include "runtime/merge_statistics.h"
#include "runtime/mirror.h"
#include "runtime/rejoins.h"
#include "runtime/run_folder.h"
#include "runtime/run_record.h"
#include "sync/machine.h"
#include "sync/tape.h"

namespace archipelago::emulate {

// The syncer and the whole of an emulated run: the state machine, the merges, and the islands that
// come and go. Does what runtime::SyncerProcess does, when virtual time says so.
class Run {
 public:
  // References must outlive it.
  Run(const runtime::Setup& setup, const data::Dataset& dataset, const Conditions& conditions,
      const runtime::RunFolder& folder, runtime::RunRecord& record);

  // To the end, which somebody outside may ask for, and writes the last global checkpoint.
  Outcome play();

 private:
  using Key = runtime::Arrivals::Key;

  struct Book {  // of an island
    std::unique_ptr<Island> island;
    bool lost = false;
    std::int64_t orders = 0;  // number of the newest
    bool ready_told = false;
    int learner = -1;  // that it plays
    int incarnation = -1;
    int leased_to = -1;  // the learner that it plays or played last
    std::int64_t lease_told = 0;
    std::int64_t row_step = -1;
    link::Report report;
  };

  Book& at(int peer) { return books_.at(static_cast<std::size_t>(peer)); }
  void add_island(int site);
  void listen(int peer);
  void lose(int peer);
  void on_report(int peer, const link::Report& report);
  void note_lease(Book& book, const link::Report& report);
  void add_step_row(Book& book, const link::Report& report);
  void tell(const sync::Event& event);
  void look_for_faults();
  void inflict(const runtime::Fault& fault);
  void stop_early(const std::string& reason);
  void watch_for_nobody();

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
  void act(const sync::Refill&) {}  // killed islands come back by themselves
  void act(const sync::Finish& action);

  void validate(std::int64_t round);
  void finish_merge(const sync::Merge& action, double seconds);
  std::optional<int> peer_of(int learner, int incarnation) const;
  void give_order(int peer, link::DownHeader header);
  void send_pause(int peer);
  void end_life(int peer);
  void note_rejoins();
  void save(std::int64_t round);
  enum class Islands { there, gone };
  nlohmann::json status(const std::string& state, Islands islands) const;
  Outcome outcome();

  const runtime::Setup& setup_;
  const Conditions& conditions_;
  const runtime::RunFolder& folder_;
  Timeline timeline_;
  VirtualLink link_;
  Moments moments_;
  Surroundings surroundings_;
  runtime::RunRecord& record_;
  Outside outside_;
  sync::TapeChain chain_;
  runtime::GlobalState state_;
  runtime::FragmentSender sender_;
  runtime::Arrivals arrivals_;
  runtime::MergeStatistics merge_statistics_;
  runtime::Rejoins rejoins_;
  sync::Machine machine_;
  runtime::Chaos chaos_;
  Random random_;  // when killed islands return
  std::vector<Book> books_;
  std::vector<sync::Action> actions_;
  Nanoseconds merger_free_ = 0;
  bool paused_ = false;
  std::optional<Nanoseconds> first_step_;
  bool stop_asked_ = false;
  bool unsaved_ = false;
  std::int64_t told_share_ = 0;  // of the tokens, percent
  std::optional<sync::Finish> finish_;
};

}  // namespace archipelago::emulate
