#include "block.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "strand.h"

dim3 threadIdx;
dim3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace archipelago::emulation {
namespace {

constexpr unsigned int kWarp = 32;

enum class Waits { no, at_barrier, in_warp };

struct Thread {
  Strand strand;
  Waits waits = Waits::no;
  std::source_location where;
  unsigned int mask = 0;        // of the warp operation
  std::uint64_t given[2] = {};  // to the last two warp operations: lanes may be one apart
  unsigned int operations = 0;

  bool done() const { return strand.ended(); }
};

class Block {
 public:
  Block(unsigned int threads, std::size_t shared_bytes, const std::function<void()>& kernel)
      : kernel_(kernel), threads_(threads), shared_(shared_bytes) {}

  void run(const std::vector<unsigned int>& order);

  void* shared() { return shared_.data(); }
  Thread& own() { return threads_[running_]; }
  unsigned int running() const { return running_; }
  void pause() { own().strand.pause(); }
  const Thread& lane(unsigned int which) const {
    return threads_[running_ / kWarp * kWarp + which];
  }

 private:
  void resume(unsigned int thread);
  bool release();
  bool release_warp(unsigned int first);
  [[noreturn]] void report_stuck() const;

  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  std::vector<unsigned char> shared_;
  unsigned int running_ = 0;
};

Block* current = nullptr;

std::string at(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

void Block::resume(unsigned int thread) {
  running_ = thread;
  threadIdx = dim3(thread % blockDim.x, thread / blockDim.x % blockDim.y,
                   thread / (blockDim.x * blockDim.y));
  threads_[thread].strand.resume();
}

void Block::run(const std::vector<unsigned int>& order) {
  // NaNs, so that what is read before it is written shows.
  std::ranges::fill(shared_, static_cast<unsigned char>(0xff));
  current = this;
  for (Thread& thread : threads_) thread.strand.start([this] { kernel_(); });
  for (;;) {
    bool moved = false;
    for (const unsigned int thread : order) {
      if (threads_[thread].done() || threads_[thread].waits != Waits::no) continue;
      resume(thread);
      moved = true;
    }
    if (std::ranges::all_of(threads_, &Thread::done)) break;
    if (!release() && !moved) report_stuck();
  }
  current = nullptr;
}

// Lets go on who waits for nobody any more.
bool Block::release() {
  bool any = false;
  for (unsigned int first = 0; first < threads_.size(); first += kWarp) {
    any = release_warp(first) || any;
  }
  const auto ready = [](const Thread& t) { return t.done() || t.waits == Waits::at_barrier; };
  if (any || !std::ranges::all_of(threads_, ready)) return any;
  const Thread* first = nullptr;
  for (Thread& thread : threads_) {
    if (thread.done()) continue;
    if (first == nullptr) first = &thread;
    if (thread.where.line() != first->where.line()) {
      throw Misuse("threads of a block wait at different barriers: " + at(first->where) + " and " +
                   at(thread.where));
    }
    thread.waits = Waits::no;
  }
  return first != nullptr;
}

bool Block::release_warp(unsigned int first) {
  const unsigned int lanes =
      std::min<unsigned int>(kWarp, static_cast<unsigned int>(threads_.size()) - first);
  const Thread* waiting = nullptr;
  for (unsigned int l = 0; l < lanes && waiting == nullptr; ++l) {
    if (threads_[first + l].waits == Waits::in_warp) waiting = &threads_[first + l];
  }
  if (waiting == nullptr) return false;
  const unsigned int mask = waiting->mask;
  for (unsigned int l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1U) == 0) continue;
    if (l >= lanes || threads_[first + l].done()) {
      throw Misuse("a warp operation names a lane that is gone: lane " + std::to_string(l) +
                   " at " + at(waiting->where));
    }
    const Thread& thread = threads_[first + l];
    if (thread.waits != Waits::in_warp) return false;
    if (thread.mask != mask || thread.where.line() != waiting->where.line()) {
      throw Misuse("lanes of a warp are in different operations: " + at(waiting->where) + " and " +
                   at(thread.where));
    }
  }
  for (unsigned int l = 0; l < lanes; ++l) {
    if ((mask >> l & 1U) != 0) threads_[first + l].waits = Waits::no;
  }
  return true;
}

void Block::report_stuck() const {
  std::string text = "a block is stuck:";
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const Thread& thread = threads_[i];
    if (thread.done()) continue;
    text += " thread " + std::to_string(i) +
            (thread.waits == Waits::at_barrier ? " at the barrier " : " in the warp operation ") +
            at(thread.where);
    break;
  }
  throw Misuse(text + ", which others never come to");
}

std::vector<unsigned int> in_order(unsigned int count, Order order) {
  std::vector<unsigned int> result(count);
  std::iota(result.begin(), result.end(), 0U);
  if (order == Order::backward) std::ranges::reverse(result);
  static std::mt19937 random(7);
  if (order == Order::shuffled) std::ranges::shuffle(result, random);
  return result;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel,
              Order order) {
  constexpr unsigned int kMostThreads = 1024;
  constexpr std::size_t kMostShared = 48 << 10;
  const unsigned int threads = block.x * block.y * block.z;
  if (threads == 0 || threads > kMostThreads) throw Misuse("a block of that size cannot run");
  if (shared_bytes > kMostShared) throw Misuse("more shared memory than a block has");
  if (grid.y > 65535 || grid.z > 65535) throw Misuse("a grid of that size cannot run");
  blockDim = block;
  gridDim = grid;
  for (const unsigned int index : in_order(grid.x * grid.y * grid.z, order)) {
    blockIdx = dim3(index % grid.x, index / grid.x % grid.y, index / (grid.x * grid.y));
    Block(threads, shared_bytes, kernel).run(in_order(threads, order));
  }
}

void* shared_memory() { return current->shared(); }

void block_barrier(const std::source_location& where) {
  Thread& own = current->own();
  own.waits = Waits::at_barrier;
  own.where = where;
  current->pause();
}

int own_lane() { return static_cast<int>(current->running() % kWarp); }

namespace {

// Returns when all lanes of the mask have given theirs, with which of `given` they did.
unsigned int meet(unsigned int mask, std::uint64_t given, const std::source_location& where) {
  Thread& own = current->own();
  if ((mask >> own_lane() & 1) == 0) throw Misuse("a warp operation without its own lane");
  const unsigned int slot = own.operations++ % 2;
  own.given[slot] = given;
  own.waits = Waits::in_warp;
  own.where = where;
  own.mask = mask;
  current->pause();
  return slot;
}

}  // namespace

std::uint64_t exchange(unsigned int mask, std::uint64_t given, int from,
                       const std::source_location& where) {
  const unsigned int slot = meet(mask, given, where);
  if (from < 0 || from >= static_cast<int>(kWarp) || (mask >> from & 1) == 0) {
    throw Misuse("a shuffle from a lane outside its mask at " + at(where));
  }
  return current->lane(static_cast<unsigned int>(from)).given[slot];
}

unsigned int vote(unsigned int mask, bool given, const std::source_location& where) {
  const unsigned int slot = meet(mask, given ? 1 : 0, where);
  unsigned int votes = 0;
  for (unsigned int l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1U) != 0 && current->lane(l).given[slot] != 0) votes |= 1U << l;
  }
  return votes;
}

}  // namespace archipelago::emulation
