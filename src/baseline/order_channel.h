#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "baseline/elastic_messages.h"

namespace archipelago::baseline {

// A rank's end of what the coordinator tells it and it answers. Planned faults are carried out as
// they come, by whichever thread looks.
class OrderChannel {
 public:
  // `most_members`: of any order.
  explicit OrderChannel(int most_members);
  OrderChannel(const OrderChannel&) = delete;
  OrderChannel& operator=(const OrderChannel&) = delete;

  // Whether an order waits to be taken. Any thread. Throws Error(internal) when the coordinator has
  // died.
  bool has_order();

  // Waits for the next order, looking ever more seldom, at last every 2 ms. Throws as has_order().
  Order take();

  // Sends it without waiting. One thread.
  void answer(const Answer& answer);

  // Waits until all answers have been sent.
  void flush();

  // How many times as long inner steps are to take at present, by the chaos plan. Any thread.
  double slowness() const;

 private:
  struct Sent {
    Answer answer;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void post();
  void strike(const OrderHeader& fault);

  std::mutex mutex_;
  std::vector<std::byte> bytes_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::optional<Order> waiting_;
  std::deque<Sent> sent_;
  std::atomic<double> slow_factor_{1};
  std::atomic<double> slow_until_{0};
};

}  // namespace archipelago::baseline
