#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <functional>
#include <span>
#include <string>

namespace archipelago::island {

using NcclId = ncclUniqueId;

// The one place that calls NCCL: a communicator of an island's GPUs, one a rank, on the current
// device. It never blocks in NCCL: every call is waited for here, with a limit and a look at who
// lives. Owned and used by one thread.
class NcclGroup {
 public:
  // What to do while waiting: `check` is called every now and then and does not return where
  // waiting has become pointless. Calls into NCCL that take longer than `seconds` have failed.
  struct Patience {
    double seconds;
    std::function<void()> check;
  };

  // On one rank, which gives it to the others.
  static NcclId new_id();

  // Collective over the `size` ranks. Throws Error(try_again) when they are not all there in time,
  // and on any failure, after the communicator has been aborted.
  NcclGroup(const NcclId& id, int rank, int size, Patience patience);
  // Queues on `stream` the replacement of device memory by its mean over the ranks. Collective.
  // Throws as the constructor.
  void all_reduce_mean(std::span<float> values, cudaStream_t stream);

  // Waits until `done` holds, however long, without keeping a core busy. Throws as the constructor
  // when NCCL reports a failure meanwhile: what it has queued would never end.
  void wait(const std::function<bool()>& done, const std::string& doing);

 private:
  // Waits for a call that has returned `code` to be through.
  void settle(ncclResult_t code, const std::string& doing);
  // Every now and then while waiting.
  void look_around(const std::string& doing);
  [[noreturn]] void give_up(const std::string& what, const std::string& doing);

  // Aborted where it ends: a destructor talks to no peer.
  struct Comm {
    Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    ~Comm() { abort(); }
    void abort();
    ncclComm_t get = nullptr;
  };

  Patience patience_;
  Comm comm_;
};

}  // namespace archipelago::island
