#include "baseline/ring.h"

#include <chrono>
#include <utility>

#include "baseline/require.h"
#include "mpi/communicator.h"

namespace archipelago::baseline {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);  // between two looks at whether it is over
constexpr char kDoing[] = "averaging with the neighbours in the ring";

// Chunk `index` (taken round the ring) of `count` about equal ones.
template <typename T>
std::span<T> chunk(std::span<T> values, int index, int count) {
  const auto at = static_cast<std::size_t>((index % count + count) % count);
  const auto begin = values.size() * at / static_cast<std::size_t>(count);
  const auto end = values.size() * (at + 1) / static_cast<std::size_t>(count);
  return values.subspan(begin, end - begin);
}

}  // namespace

Ring::Ring(const RingPlace& place, IsOver is_over)
    : place_(place), is_over_(std::move(is_over)), thread_([this] { run(); }) {}

Ring::~Ring() { stop(); }

void Ring::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::int64_t Ring::start(std::span<float> values) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
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
    if (!wait_for_values(lock)) return;
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

// False when there will be none.
bool Ring::wait_for_values(std::unique_lock<std::mutex>& lock) {
  const auto has_news = [this] { return stopping_ || !waiting_.empty(); };
  if (!is_over_) changed_.wait(lock, has_news);
  while (!changed_.wait_for(lock, kPause, has_news)) {
    lock.unlock();
    if (is_over_()) throw ExchangeEnded();
    lock.lock();
  }
  return !waiting_.empty();
}

void Ring::average(std::span<float> values) {
  if (place_.size == 1) return;
  // Each chunk is added up on its way round the ring ...
  for (int step = 0; step < place_.size - 1; ++step) {
    const auto sum = chunk(values, place_.index - step - 1, place_.size);
    received_values_.resize(sum.size());
    exchange(chunk(values, place_.index - step, place_.size), received_values_);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += received_values_[i];
  }
  const float share = 1.0F / static_cast<float>(place_.size);
  for (float& value : chunk(values, place_.index + 1, place_.size)) value *= share;
  // ... and goes round once more as the mean.
  for (int step = 0; step < place_.size - 1; ++step) {
    exchange(chunk(values, place_.index + 1 - step, place_.size),
             chunk(values, place_.index - step, place_.size));
  }
}

void Ring::exchange(std::span<const float> to_successor, std::span<float> from_predecessor) {
  MPI_Request receive = MPI_REQUEST_NULL;
  MPI_Request send = MPI_REQUEST_NULL;
  try {
    require(mpi::outcome_of(
        MPI_Irecv(from_predecessor.data(), static_cast<int>(from_predecessor.size()), MPI_FLOAT,
                  place_.predecessor, place_.tag, place_.comm, &receive),
        kDoing));
    require(mpi::outcome_of(MPI_Isend(to_successor.data(), static_cast<int>(to_successor.size()),
                                      MPI_FLOAT, place_.successor, place_.tag, place_.comm, &send),
                            kDoing));
    finish(receive);
    finish(send);
  } catch (const ExchangeEnded&) {
    // A send that nobody receives stays as it is: MPI can't cancel it.
    if (is_over_) mpi::abandon_receive(receive, kDoing);
    throw;
  }
  if (place_.successor_is_far) sent_ += static_cast<std::int64_t>(to_successor.size_bytes());
  if (place_.predecessor_is_far) {
    received_ += static_cast<std::int64_t>(from_predecessor.size_bytes());
  }
}

void Ring::finish(MPI_Request& request) {
  if (!is_over_) return require(mpi::wait(request, kDoing));
  const auto outcome = mpi::wait_unless(is_over_, request, kDoing);
  if (!outcome) throw ExchangeEnded();
  require(*outcome);
}

}  // namespace archipelago::baseline
