#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace archipelago::kernels::cuda {

// Pinned memory from which copies to the device start: a copy straight from the caller's would
// first wait for all that is queued.
class Staging {
 public:
  // Queues a copy of `bytes`; `host` may be changed at once. Always with the same stream.
  void copy_in(void* to, const void* host, std::int64_t bytes, const Stream& stream);

 private:
  PinnedBuffer ring_;
  std::int64_t used_ = 0;  // bytes, since the stream was last waited for
};

}  // namespace archipelago::kernels::cuda
