#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace archipelago::kernels::cuda {

// A stream of the current device that never waits for the default stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  // Returns when all that was queued is done.
  void finish() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// A point in a stream's work.
class Event {
 public:
  Event() : Event(cudaEventDisableTiming) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // The point is what is queued on `stream` now.
  void record(cudaStream_t stream);
  // What is queued on `stream` from now on runs after the point.
  void hold(cudaStream_t stream) const;
  // Whether the point is reached. Does not wait.
  bool reached() const;

 protected:
  explicit Event(unsigned int flags);
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A point in a stream's work, with the time at which it was reached.
class TimedEvent : public Event {
 public:
  TimedEvent() : Event(cudaEventDefault) {}

  // Waits for this point, which comes after the other on the same stream.
  float milliseconds_since(const TimedEvent& before) const;
};

// Host memory that copies to and from the GPU do not have to stage.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::int64_t count);

  float* data() const { return data_.get(); }
  std::int64_t size() const { return count_; }

 private:
  struct Free {
    void operator()(float* memory) const noexcept { cudaFreeHost(memory); }
  };
  std::unique_ptr<float, Free> data_;
  std::int64_t count_ = 0;
};

}  // namespace archipelago::kernels::cuda
