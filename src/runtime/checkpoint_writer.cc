#include "runtime/checkpoint_writer.h"

#include <exception>
#include <utility>

#include "core/log.h"

namespace archipelago::runtime {

CheckpointWriter::CheckpointWriter() : thread_([this] { run(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool CheckpointWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return job_.has_value();
}

void CheckpointWriter::start(std::string what, std::function<void()> write) {
  {
    const std::lock_guard lock(mutex_);
    job_ = Job{std::move(what), std::move(write)};
  }
  changed_.notify_all();
}

bool CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
  return !last_failed_;
}

int CheckpointWriter::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return job_ || stopping_; });
    if (!job_) return;
    bool failed = false;
    lock.unlock();
    try {
      job_->write();
    } catch (const std::exception& error) {
      failed = true;
      log_warning(
          "could not write " + job_->what +
          "; training goes on, and the checkpoints before it, if any, stay: " + error.what());
    }
    lock.lock();
    last_failed_ = failed;
    failures_ += failed ? 1 : 0;
    job_.reset();
    changed_.notify_all();
  }
}

}  // namespace archipelago::runtime
