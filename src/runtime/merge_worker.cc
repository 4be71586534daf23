#include "runtime/merge_worker.h"

#include <exception>
#include <string>
#include <utility>

#include "core/log.h"
#include "mpi/session.h"
#include "runtime/clock.h"

namespace archipelago::runtime {

MergeWorker::MergeWorker(const GlobalState& state) : state_(state), thread_([this] { run(); }) {}

MergeWorker::~MergeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MergeWorker::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

std::vector<MergeWorker::Result> MergeWorker::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

void MergeWorker::run() try {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !jobs_.empty() || stopping_; });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const double started = now_seconds();
    auto merged = state_.merge(job.fragment, job.inputs);
    lock.lock();
    results_.push_back({job.round, std::move(merged), now_seconds() - started});
  }
} catch (const std::exception& error) {
  log_error(std::string("the merge thread failed: ") + error.what());
  mpi::die_visibly();
}

}  // namespace archipelago::runtime
