#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/global_state.h"

namespace archipelago::runtime {

// Merges fragments on a thread of its own, one after the other, so that the syncer's loop goes on
// listening meanwhile.
class MergeWorker {
 public:
  struct Job {
    std::int64_t round;
    int fragment;
    std::vector<sync::MergeInput> inputs;  // their memory stays until the result was taken
  };
  struct Result {
    std::int64_t round;
    GlobalState::MergedFragment merged;
    double seconds;
  };

  // `state` must outlive this; adopting a result of it meanwhile is allowed.
  explicit MergeWorker(const GlobalState& state);
  ~MergeWorker();
  MergeWorker(const MergeWorker&) = delete;
  MergeWorker& operator=(const MergeWorker&) = delete;

  void add(Job job);
  std::vector<Result> take_results();

 private:
  void run();

  const GlobalState& state_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<Result> results_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace archipelago::runtime
