#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace archipelago::runtime {

// Writes checkpoints one after the other on a thread of its own, so that neither steps nor rounds
// wait for a disk. A write that fails (a full disk) is logged; the checkpoints before it stay. HDF5
// must be used by no other thread meanwhile.
class CheckpointWriter {
 public:
  CheckpointWriter();
  ~CheckpointWriter();  // waits for what was asked for
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Whether a write waits or is under way.
  bool busy() const;

  // Asks for a write; precondition !busy(). `write` throws when it cannot.
  void start(std::string what, std::function<void()> write);

  // Waits until nothing waits or is under way; false when the last write failed.
  bool finish();

  // Writes that failed so far.
  int failures() const;

 private:
  struct Job {
    std::string what;
    std::function<void()> write;
  };

  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;
  bool last_failed_ = false;
  int failures_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace archipelago::runtime
