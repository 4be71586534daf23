#pragma once

#include <cstdint>
#include <span>

namespace archipelago::baseline {

// Means over a group of ranks, made in the background while the caller computes. All ranks start
// the same means, of the same sizes, in the same order. One thread at a time.
class Averager {
 public:
  virtual ~Averager() = default;

  // Begins to replace `values` by their mean over the ranks, the same bits on all of them. The
  // memory is the averager's until the mean is there. Returns the mean's number, counted from 1.
  virtual std::int64_t start(std::span<float> values) = 0;

  // Waits until mean `number` and all before it are there.
  virtual void wait(std::int64_t number) = 0;

  // Of values that have crossed from one island to another, by this rank so far.
  virtual std::int64_t bytes_sent() const = 0;
  virtual std::int64_t bytes_received() const = 0;
};

}  // namespace archipelago::baseline
