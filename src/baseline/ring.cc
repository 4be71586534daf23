#include "baseline/ring.h"

#include <utility>

#include "baseline/require.h"

namespace archipelago::baseline {
namespace {

constexpr int kTag = 1;

// Chunk `index` (taken round the ring) of `count` about equal ones.
template <typename T>
std::span<T> chunk(std::span<T> values, int index, int count) {
  const auto at = static_cast<std::size_t>((index % count + count) % count);
  const auto begin = values.size() * at / static_cast<std::size_t>(count);
  const auto end = values.size() * (at + 1) / static_cast<std::size_t>(count);
  return values.subspan(begin, end - begin);
}

}  // namespace

Ring::Ring(mpi::Communicator comm, bool successor_is_far, bool predecessor_is_far)
    : comm_(std::move(comm)),
      rank_(comm_.rank()),
      size_(comm_.size()),
      successor_is_far_(successor_is_far),
      predecessor_is_far_(predecessor_is_far),
      thread_([this] { run(); }) {}

Ring::~Ring() { stop(); }

void Ring::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Ring::close() {
  stop();
  comm_.close();
}

std::int64_t Ring::start(std::span<float> values) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(values);
  changed_.notify_all();
  return ++started_;
}

void Ring::wait(std::int64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= number || failure_; });
  if (finished_ < number) std::rethrow_exception(failure_);
}

void Ring::run() try {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::span<float> values = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    average(values);
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
} catch (...) {
  const std::lock_guard lock(mutex_);
  failure_ = std::current_exception();
  changed_.notify_all();
}

void Ring::average(std::span<float> values) {
  if (size_ == 1) return;
  // Each chunk is added up on its way round the ring ...
  for (int step = 0; step < size_ - 1; ++step) {
    const auto sum = chunk(values, rank_ - step - 1, size_);
    received_values_.resize(sum.size());
    exchange(chunk(values, rank_ - step, size_), received_values_);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += received_values_[i];
  }
  const float share = 1.0F / static_cast<float>(size_);
  for (float& value : chunk(values, rank_ + 1, size_)) value *= share;
  // ... and goes round once more as the mean.
  for (int step = 0; step < size_ - 1; ++step) {
    exchange(chunk(values, rank_ + 1 - step, size_), chunk(values, rank_ - step, size_));
  }
}

void Ring::exchange(std::span<const float> to_successor, std::span<float> from_predecessor) {
  const int successor = (rank_ + 1) % size_;
  const int predecessor = (rank_ + size_ - 1) % size_;
  const std::string doing = "averaging with the neighbours in the ring";
  MPI_Request receive = MPI_REQUEST_NULL;
  MPI_Request send = MPI_REQUEST_NULL;
  require(
      mpi::outcome_of(MPI_Irecv(from_predecessor.data(), static_cast<int>(from_predecessor.size()),
                                MPI_FLOAT, predecessor, kTag, comm_.get(), &receive),
                      doing));
  require(mpi::outcome_of(MPI_Isend(to_successor.data(), static_cast<int>(to_successor.size()),
                                    MPI_FLOAT, successor, kTag, comm_.get(), &send),
                          doing));
  require(mpi::wait(receive, doing));
  require(mpi::wait(send, doing));
  if (successor_is_far_) sent_ += static_cast<std::int64_t>(to_successor.size_bytes());
  if (predecessor_is_far_) received_ += static_cast<std::int64_t>(from_predecessor.size_bytes());
}

}  // namespace archipelago::baseline
