#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "baseline/averager.h"

namespace archipelago::baseline {

// Means over threads of one process that stand for ranks.
class SharedMean {
 public:
  explicit SharedMean(int members) : members_(members) {}

  // Member's part number `number` has come; the last one makes the mean.
  void bring(std::int64_t number, std::span<float> values) {
    const std::lock_guard lock(mutex_);
    auto& parts = parts_[number];
    parts.push_back(values);
    if (static_cast<int>(parts.size()) < members_) return;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (const auto part : parts) sum += static_cast<double>(part[i]);
      for (const auto part : parts) part[i] = static_cast<float>(sum / members_);
    }
    done_ = number;
    changed_.notify_all();
  }

  void wait(std::int64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }

 private:
  int members_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::vector<std::span<float>>> parts_;
  std::int64_t done_ = 0;
};

class SharedAverager : public Averager {
 public:
  explicit SharedAverager(SharedMean& mean) : mean_(mean) {}

  std::int64_t start(std::span<float> values) override {
    mean_.bring(++started_, values);
    return started_;
  }
  void wait(std::int64_t number) override { mean_.wait(number); }
  std::int64_t bytes_sent() const override { return 0; }
  std::int64_t bytes_received() const override { return 0; }
  std::int64_t started() const { return started_; }

 private:
  SharedMean& mean_;
  std::int64_t started_ = 0;
};

}  // namespace archipelago::baseline
