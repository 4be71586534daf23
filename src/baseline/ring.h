#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "baseline/averager.h"

namespace archipelago::baseline {

// A rank's place in a ring of ranks of a communicator.
struct RingPlace {
  MPI_Comm comm = MPI_COMM_NULL;
  int tag = 1;
  int index = 0;  // of `size`
  int size = 1;
  int successor = 0;  // in comm
  int predecessor = 0;
  // Whether they belong to other islands, so that their bytes count.
  bool successor_is_far = false;
  bool predecessor_is_far = false;
};

// The all-reduce that moves least over each rank's link (Patarasuk and Yuan 2009): each rank sends
// 2 (n-1)/n of the values to its successor and receives as much from its predecessor. A thread of
// its own does one mean after the other and sleeps while it waits, so that the cores are left to
// the steps.
class Ring : public Averager {
 public:
  // Whether the ring has come to its end before its time, though its neighbours may live.
  using IsOver = std::function<bool()>;

  // `is_over`: asked about every millisecond, by the ring's thread; what is under way is then given
  // up as where a neighbour has died. Its sends may still be under way after that: the memory of
  // values has to outlast the ring.
  explicit Ring(const RingPlace& place, IsOver is_over = nullptr);
  ~Ring() override;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Both throw ExchangeEnded when a neighbour died or the ring is over.
  std::int64_t start(std::span<float> values) override;
  void wait(std::int64_t number) override;
  std::int64_t bytes_sent() const override { return sent_; }
  std::int64_t bytes_received() const override { return received_; }

  // After the last wait.
  void stop();

 private:
  void run();
  bool wait_for_values(std::unique_lock<std::mutex>& lock);
  void average(std::span<float> values);
  void exchange(std::span<const float> to_successor, std::span<float> from_predecessor);
  void finish(MPI_Request& request);

  RingPlace place_;
  IsOver is_over_;

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
