#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "link/link.h"

namespace archipelago::runtime {

// What the syncer said since the leader last asked.
struct Inbox {
  std::optional<link::DownHeader> order;       // the newest assign, expel or retire
  std::map<int, link::DownMessage> fragments;  // the newest of each fragment, later than `order`
  std::vector<link::DownHeader> asks;          // later than `order`
  std::vector<link::DownHeader> faults;        // of kind slow: for the compute thread
  bool pause = false;
  std::optional<link::DownHeader> finish;
  bool syncer_lost = false;
};

// The leader's communication thread: it alone touches the pair, so that the compute thread never
// waits for the syncer. The compute thread posts reports and fragments and takes what has arrived.
class Communication {
 public:
  // `inflict`: carries out a planned fault on this island (kill, stop), called on the communication
  // thread. `end` is used by that thread only, from now until the destructor has joined it.
  Communication(std::unique_ptr<link::LeaderEnd> end,
                std::function<void(const link::DownHeader&)> inflict);
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

  // A buffer of `elements` to fill for `stage`; reused memory.
  link::Values take_buffer(std::int64_t elements);
  void stage(const link::FragmentHeader& header, link::Values values);

  // Waits until the last posted report has left, for at most `seconds`.
  void flush(double seconds);

  // Ends the thread and gives back the pair's end. Nothing may be called after it.
  std::unique_ptr<link::LeaderEnd> stop();

 private:
  struct Staged {
    link::FragmentHeader header;
    link::Values values;
  };

  void run();
  bool receive();
  bool send_report();
  bool send_fragment();
  void sort_in(link::DownMessage message);
  void mark(link::PeerState state);

  std::unique_ptr<link::LeaderEnd> end_;
  std::function<void(const link::DownHeader&)> inflict_;

  mutable std::mutex mutex_;
  Inbox inbox_;
  link::Report report_;
  bool report_is_new_ = false;
  double last_post_ = 0;
  std::vector<Staged> staged_;
  std::vector<link::Values> spare_buffers_;
  int unfinished_ = 0;

  double last_report_sent_ = 0;
  std::vector<link::DownMessage> arrived_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace archipelago::runtime
