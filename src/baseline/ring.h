#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "baseline/averager.h"
#include "mpi/communicator.h"

namespace archipelago::baseline {

// The all-reduce that moves least over each rank's link (Patarasuk and Yuan 2009): each rank sends
// 2 (n-1)/n of the values to its successor and receives as much from its predecessor. A thread of
// its own does one mean after the other and sleeps while it waits, so that the cores are left to
// the steps.
class Ring : public Averager {
 public:
  // `comm`: the group, in the order of the ring. `neighbours_are_far`: whether successor and
  // predecessor belong to other islands, so that their bytes count.
  Ring(mpi::Communicator comm, bool successor_is_far, bool predecessor_is_far);
  ~Ring() override;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::int64_t start(std::span<float> values) override;
  // Throws Error(internal) when a neighbour died.
  void wait(std::int64_t number) override;
  std::int64_t bytes_sent() const override { return sent_; }
  std::int64_t bytes_received() const override { return received_; }

  // Collective over the group, after the last wait.
  void close();

 private:
  void run();
  void stop();
  void average(std::span<float> values);
  void exchange(std::span<const float> to_successor, std::span<float> from_predecessor);

  mpi::Communicator comm_;
  int rank_;
  int size_;
  bool successor_is_far_;
  bool predecessor_is_far_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::span<float>> waiting_;
  std::int64_t started_ = 0;
  std::int64_t finished_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::vector<float> received_values_;  // of the thread alone
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> received_{0};
  std::thread thread_;
};

}  // namespace archipelago::baseline
