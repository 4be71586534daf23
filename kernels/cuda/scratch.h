#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/check.h"

namespace archipelago::kernels::cuda {

// Device memory that grows to the largest size asked for and stays; what it holds is lost at the
// next reserve().
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { cudaFree(memory_); }

  template <typename T>
  T* reserve(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > bytes_) {
      // cudaFree() waits for what uses the old memory.
      check(cudaFree(std::exchange(memory_, nullptr)), "giving back scratch memory");
      bytes_ = 0;
      check(cudaMalloc(&memory_, bytes), "taking " + std::to_string(bytes) + " bytes of scratch");
      bytes_ = bytes;
    }
    return static_cast<T*>(memory_);
  }

  // What the last reserve() gave.
  template <typename T>
  const T* get() const {
    return static_cast<const T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace archipelago::kernels::cuda
