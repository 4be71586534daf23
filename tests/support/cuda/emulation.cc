#include "emulation.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "block.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

namespace archipelago::emulation {
namespace {

// As cudaMalloc() aligns.
constexpr std::align_val_t kAlignment{256};

struct Memory {
  struct Free {
    void operator()(char* bytes) const { operator delete[](bytes, kAlignment); }
  };
  std::unique_ptr<char[], Free> bytes;
  std::size_t size;
};
using Allocations = std::map<const char*, Memory>;

struct State {
  Order order = Order::forward;
  int devices = 1;
  cudaError_t devices_code = cudaSuccess;
  Allocations device;
  Allocations pinned;
  std::vector<std::unique_ptr<Stream>> streams;
  std::map<std::string, int> failures;
  int accesses = 0;
};

State& state() {
  static State state;
  return state;
}

// The allocation that holds an address, or null.
const Memory* find(const Allocations& allocations, const void* address) {
  const char* const byte = static_cast<const char*>(address);
  auto next = allocations.upper_bound(byte);
  if (next == allocations.begin()) return nullptr;
  --next;
  return byte < next->first + next->second.size ? &next->second : nullptr;
}

void* allocate(Allocations& allocations, std::size_t size) {
  Memory memory;
  memory.bytes.reset(static_cast<char*>(operator new[](size, kAlignment)));
  memory.size = size;
  std::fill_n(memory.bytes.get(), size, static_cast<char>(0xff));
  char* const start = memory.bytes.get();
  allocations.emplace(start, std::move(memory));
  return start;
}

bool release(Allocations& allocations, void* memory) {
  return memory == nullptr || allocations.erase(static_cast<char*>(memory)) == 1;
}

// What waits for another rank's collective stays.
void drain() {
  for (const auto& stream : state().streams) {
    while (!stream->work.empty() && stream->run_one()) {
    }
  }
}

cudaError_t failure(const char* function) {
  return static_cast<cudaError_t>(take_failure(function));
}

}  // namespace

struct Event {
  bool timed;
  Stream* stream = nullptr;  // null: never recorded
  std::size_t count = 0;
  std::shared_ptr<double> milliseconds = {};  // of its stream when it came to this point
};

void set_order(Order order) { state().order = order; }

void set_devices(int count, cudaError_t code) {
  state().devices = count;
  state().devices_code = code;
}

void fail_next(const std::string& function, int code) { state().failures[function] = code; }

int take_failure(const std::string& function) {
  const auto found = state().failures.find(function);
  if (found == state().failures.end()) return 0;
  const int code = found->second;
  state().failures.erase(found);
  return code;
}

bool Stream::run_one() {
  const auto item = std::move(work.front());
  work.pop_front();
  ++done;  // also where it throws: what is wrong is told once
  if (item()) return true;
  --done;
  work.push_front(item);
  return false;
}

void Stream::run_until(std::size_t count) {
  while (done < count) {
    if (!run_one()) throw Misuse("a stream is waited for whose collective others have not come to");
  }
}

void enqueue(cudaStream_t stream, std::function<void()> item) {
  enqueue_collective(stream, [item = std::move(item)] {
    item();
    return true;
  });
}

void enqueue_collective(cudaStream_t stream, std::function<bool()> item) {
  if (stream == nullptr) throw Misuse("the default stream is used");
  stream->work.push_back(std::move(item));
}

std::recursive_mutex& mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

bool is_pinned(const void* memory) { return find(state().pinned, memory) != nullptr; }

DeviceAccess::DeviceAccess() {
  if (state().accesses++ > 0) return;
  for (const auto& [start, memory] : state().device) {
    ASAN_UNPOISON_MEMORY_REGION(start, memory.size);
  }
}

DeviceAccess::~DeviceAccess() {
  if (--state().accesses > 0) return;
  for (const auto& [start, memory] : state().device) ASAN_POISON_MEMORY_REGION(start, memory.size);
}

void require_device(const void* memory, std::size_t bytes, const std::string& what) {
  const Memory* const found = find(state().device, memory);
  const char* const start = static_cast<const char*>(memory);
  if (found == nullptr || start + bytes > found->bytes.get() + found->size) {
    throw Misuse(what + " is not in one allocation of the device's memory");
  }
}

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> kernel) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaLaunchKernelEx")) return code;
  enqueue(config.stream, [config, kernel = std::move(kernel)] {
    const DeviceAccess access;
    run_grid(config.gridDim, config.blockDim, config.dynamicSmemBytes, kernel, state().order);
  });
  return cudaSuccess;
}

}  // namespace archipelago::emulation

using namespace archipelago::emulation;  // NOLINT: CUDA's names are global

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "another error";
  }
}

// Every function here gives its error to its caller alone.
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(mutex());
  *count = state().devices;
  return state().devices_code;
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(mutex());
  return device < state().devices ? failure("cudaSetDevice") : cudaErrorInvalidValue;
}

cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device) {
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 4;  // multiprocessors
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaMalloc")) return code;
  *memory = allocate(state().device, bytes);
  ASAN_POISON_MEMORY_REGION(*memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(mutex());
  if (memory == nullptr) return cudaSuccess;
  drain();
  if (const Memory* const found = find(state().device, memory)) {
    ASAN_UNPOISON_MEMORY_REGION(found->bytes.get(), found->size);
  }
  return release(state().device, memory) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaMallocHost")) return code;
  *memory = allocate(state().pinned, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(mutex());
  drain();
  return release(state().pinned, memory) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaMemcpyAsync")) return code;
  if (kind != cudaMemcpyHostToDevice) require_device(from, bytes, "what a copy reads");
  if (kind != cudaMemcpyDeviceToHost) require_device(to, bytes, "what a copy writes");
  const auto copy = [to, bytes](const void* source) {
    const DeviceAccess access;
    std::memcpy(to, source, bytes);
  };
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    // Staged when the call returns.
    std::vector<char> staged(static_cast<const char*>(from),
                             static_cast<const char*>(from) + bytes);
    enqueue(stream, [copy, staged = std::move(staged)] { copy(staged.data()); });
    return cudaSuccess;
  }
  enqueue(stream, [copy, from] { copy(from); });
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to)) return cudaStreamSynchronize(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaStreamCreateWithFlags")) return code;
  if (flags != cudaStreamNonBlocking) throw Misuse("a stream that waits for the default stream");
  state().streams.push_back(std::make_unique<Stream>());
  *stream = state().streams.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  // What is queued still runs; events may name the stream longer.
  while (!stream->work.empty() && stream->run_one()) {
  }
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaStreamSynchronize")) return code;
  if (stream == nullptr) throw Misuse("the default stream is waited for");
  stream->run_until(stream->queued());
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const std::lock_guard lock(mutex());
  if (event->stream == nullptr) return cudaSuccess;
  enqueue(stream, [other = event->stream, count = event->count] { other->run_until(count); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  const std::lock_guard lock(mutex());
  *event = new Event{flags != cudaEventDisableTiming};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(mutex());
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (stream == nullptr) throw Misuse("an event is recorded on the default stream");
  event->stream = stream;
  if (event->timed) {
    event->milliseconds = std::make_shared<double>();
    enqueue(stream, [stream, at = event->milliseconds] { *at = stream->milliseconds; });
  }
  event->count = stream->queued();
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex());
  if (event->stream != nullptr) event->stream->run_until(event->count);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(mutex());
  for (const cudaEvent_t event : {begin, end}) {
    if (!event->timed) throw Misuse("the time of an event without timing");
    if (event->stream == nullptr || event->stream->done < event->count) return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>(*end->milliseconds - *begin->milliseconds);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t code = failure("cudaEventQuery")) return code;
  if (event->stream == nullptr || event->stream->done >= event->count) return cudaSuccess;
  // Time passes with every question.
  event->stream->run_one();
  return cudaErrorNotReady;
}
