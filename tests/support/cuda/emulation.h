#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "cuda_runtime.h"

// Runs CUDA's sources on one thread of the processor: blocks in turn, the threads of a block as
// fibers that change at barriers and warp operations. Every mistake throws Misuse, from the call
// that runs the queued work:
//   - threads of a block at different barriers, a warp operation that a named lane never comes to;
//   - the default stream, a copy outside an allocation, a block or its shared memory too large.
// Further, by the address sanitizer: accesses outside an allocation or the launch's shared memory,
// and device memory touched by the host. Fresh memory, shared too, is full of NaNs.
//
// Streams are lazy: work waits in its stream until something waits for it, so what one stream needs
// of another without saying so is not there yet, and pinned memory is read when the copy runs.

namespace archipelago::emulation {

class Misuse : public std::logic_error {
 public:
  using logic_error::logic_error;
};

// In which order a block's threads run between two barriers, and the grid's blocks: results that
// depend on it lack a barrier, or race.
enum class Order { forward, backward, shuffled };
void set_order(Order order);

// What cudaGetDeviceCount() says. An error: there is no device.
void set_devices(int count, cudaError_t code);

// The next call of any emulated function of this name gives this code, once.
void fail_next(const std::string& function, int code);
// The code that such a call has to give, 0: none.
int take_failure(const std::string& function);

struct Stream {
  // An item says whether it is done; one that is not is tried again.
  std::deque<std::function<bool()>> work;
  std::size_t done = 0;
  double milliseconds = 0;  // that its work says it has taken

  std::size_t queued() const { return done + work.size(); }
  // Tries the next item; returns whether it is done.
  bool run_one();
  // Up to a count since the stream's beginning; throws Misuse where an item is never done.
  void run_until(std::size_t count);
};

// Adds work to a stream after checking that it is no default stream.
void enqueue(cudaStream_t stream, std::function<void()> item);
// The same for work that may have to wait for other ranks' streams.
void enqueue_collective(cudaStream_t stream, std::function<bool()> item);

// Held by every emulated call, so that ranks may be threads.
std::recursive_mutex& mutex();

// Whether cudaMallocHost() gave this memory.
bool is_pinned(const void* memory);

// While one lives, device memory may be touched: for the fakes of libraries that compute on it.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// Throws Misuse unless the bytes lie in one allocation of the device's.
void require_device(const void* memory, std::size_t bytes, const std::string& what);

}  // namespace archipelago::emulation
