#include "kernels/cuda/stream.h"

#include "kernels/cuda/check.h"

namespace archipelago::kernels::cuda {

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

void Stream::finish() const { check(cudaStreamSynchronize(stream_), "waiting for a stream"); }

Event::Event(unsigned int flags) {
  check(cudaEventCreateWithFlags(&event_, flags), "making an event");
}

Event::~Event() { cudaEventDestroy(event_); }

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "recording an event");
}

void Event::hold(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "making a stream wait for another");
}

bool Event::reached() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  check(code, "asking whether a stream has come to an event");
  return true;
}

float TimedEvent::milliseconds_since(const TimedEvent& before) const {
  check(cudaEventSynchronize(get()), "waiting for an event");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, before.get(), get()), "taking a time");
  return milliseconds;
}

PinnedBuffer::PinnedBuffer(std::int64_t count) : count_(count) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<std::size_t>(count) * sizeof(float)),
        "taking " + std::to_string(count * 4) + " bytes of pinned memory");
  data_.reset(static_cast<float*>(memory));
}

}  // namespace archipelago::kernels::cuda
