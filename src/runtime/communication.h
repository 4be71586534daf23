#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/mover.h"
#include "link/link.h"
#include "runtime/asks.h"
#include "runtime/fragment_decoder.h"
#include "runtime/fragment_encoder.h"

namespace archipelago::runtime {

// What the syncer said since the leader last asked.
struct Inbox {
  std::optional<link::DownHeader> order;   // the newest assign, expel or retire
  std::map<int, WholeFragment> fragments;  // the newest of each fragment, later than `order`
  std::optional<link::DownMessage> lease;  // the newest, later than `order`
  Asks asks;                               // later than `order`
  std::vector<link::DownHeader> faults;    // for the compute thread
  bool pause = false;
  std::optional<link::DownHeader> finish;
  bool leave = false;
  bool syncer_lost = false;
};

// The leader's communication threads, one for each syncer it has a pair with: they alone touch the
// pairs, so that the compute thread never waits for a syncer, and a call that hangs on a dead
// syncer's pair hinders no other. The compute thread posts reports and fragments and takes what has
// arrived.
//
// The first ends are those of the syncers that share the fragments: a fragment goes to and comes
// from the one that merges it, all else the first one alone. The next ends are the standbys', in
// the order of their terms. The leader talks to one of them, the present syncer, and turns to a
// later one for good when the present one dies or the later one speaks; what an earlier one still
// says is dropped.
class Communication {
 public:
  // `encoder`: of what is staged. `decoder`: of fragments that come. `syncers`: ends of syncers
  // that share the fragments. `inflict`: carries out a planned fault on this island (kill, stop),
  // called on a communication thread. Each end is used by its thread only, from now until stop() or
  // the destructor.
  Communication(std::vector<std::unique_ptr<link::LeaderEnd>> ends,
                std::unique_ptr<FragmentEncoder> encoder, std::unique_ptr<FragmentDecoder> decoder,
                std::function<void(const link::DownHeader&)> inflict, std::size_t syncers = 1);
  ~Communication();
  Communication(const Communication&) = delete;
  Communication& operator=(const Communication&) = delete;

  // ---- for the compute thread ----

  Inbox take();

  // Becomes the report that the syncer sees. Repeated as a heartbeat for as long as the next post
  // can be expected: a compute thread that hangs falls silent.
  void post(const link::Report& report);

  // Whether `stage` has room: at most two fragments wait or are on their way.
  bool can_stage() const;

  // `base`: see FragmentEncoder.
  void stage(const link::FragmentHeader& header, std::shared_ptr<const kernels::HostArray> values,
             std::shared_ptr<const link::Bytes> base = nullptr);

  // Waits until the last posted report has left, for at most `seconds`.
  void flush(double seconds);

  // Ends the threads and gives back the pairs' ends. Nothing may be called after it. Only when no
  // syncer has died: a thread may hang on a dead one's pair.
  std::vector<std::unique_ptr<link::LeaderEnd>> stop();

 private:
  struct Staged {
    link::FragmentHeader header;
    std::shared_ptr<const kernels::HostArray> values;
    std::shared_ptr<const link::Bytes> base;
  };

  // On the thread of end `term`.
  void run(std::size_t term);
  bool receive(std::size_t term, std::vector<link::DownMessage>& arrived);
  bool send_report(std::size_t term);
  bool send_fragment(std::size_t term);
  void disturb(link::Disturbance disturbance);
  void sort_in(std::size_t term, link::DownMessage message);
  void sort_in_fragment(std::size_t term, link::DownMessage message);
  void suffer(std::size_t term, const link::DownHeader& fault);
  bool is_cut(std::size_t term) const;
  void mark(std::size_t term, link::PeerState state);
  // Whether the end is of a syncer that merges beside the first one.
  bool only_merges(std::size_t term) const { return term > 0 && term < syncers_; }

  // With the mutex held.
  void turn_to(std::size_t term);
  // Turns to the term where it is a later one; whether what it says counts.
  bool listens_to(std::size_t term);
  bool is_present(std::size_t term) const { return term == term_ && !inbox_.syncer_lost; }
  std::size_t end_for(int fragment) const;

  std::vector<std::unique_ptr<link::LeaderEnd>> ends_;
  std::size_t syncers_;
  // By term: messages are lost both ways, on all pairs of the term.
  std::vector<std::atomic<double>> cut_until_;
  std::unique_ptr<FragmentEncoder> encoder_;
  std::unique_ptr<FragmentDecoder> decoder_;
  std::function<void(const link::DownHeader&)> inflict_;

  mutable std::mutex mutex_;
  std::size_t term_ = 0;  // index of the present syncer's end
  std::vector<bool> lost_;
  std::optional<double> incomplete_since_;  // a syncer that merges beside the first one is lost
  Inbox inbox_;
  link::Report report_;
  bool report_is_new_ = false;
  double last_post_ = 0;
  std::vector<Staged> staged_;
  std::deque<link::Disturbance> disturbances_;  // planned, of the next fragments that are sent
  int unfinished_ = 0;

  double last_report_sent_ = 0;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace archipelago::runtime
