#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "link/link.h"

namespace archipelago::runtime {

// The syncer's end in memory: keeps what is sent; values stay "in flight" until told to leave.
class FakeSyncerEnd : public link::SyncerEnd {
 public:
  struct Sent {
    int peer;
    link::DownHeader header;
    std::shared_ptr<const link::Values> values;
  };

  explicit FakeSyncerEnd(int peers) : in_flight_(static_cast<std::size_t>(peers), 0) {}

  int peers() const override { return static_cast<int>(in_flight_.size()); }
  void poll(std::vector<int>&) override {}
  std::optional<link::Report> read_report(int) override { return std::nullopt; }
  std::optional<link::ArrivedFragment> read_fragment(int) override { return std::nullopt; }
  void acknowledge(int, int) override {}
  void send(int peer, link::DownHeader header,
            std::shared_ptr<const link::Values> values) override {
    if (values) ++in_flight_.at(static_cast<std::size_t>(peer));
    sent.push_back({peer, header, std::move(values)});
  }
  int values_in_flight(int peer) const override {
    return in_flight_.at(static_cast<std::size_t>(peer));
  }
  bool drained() const override { return true; }
  std::int64_t damaged() const override { return 0; }
  std::int64_t bytes_up() const override { return 0; }
  std::int64_t bytes_down() const override { return 0; }

  void let_one_leave(int peer) { --in_flight_.at(static_cast<std::size_t>(peer)); }

  std::vector<Sent> sent;

 private:
  std::vector<int> in_flight_;
};

// A leader's end in memory: the test says what comes down and looks at what went up. Thread-safe,
// since the communication thread uses it.
class FakeLeaderEnd : public link::LeaderEnd {
 public:
  struct Fragment {
    link::FragmentHeader header;
    link::Values values;
  };

  link::PeerState put_report(const link::Report& report) override {
    const std::lock_guard lock(mutex_);
    reports_.push_back(report);
    return state_;
  }
  bool slot_free() const override {
    const std::lock_guard lock(mutex_);
    return free_slots_ > 0;
  }
  link::PeerState put_fragment(const link::FragmentHeader& header,
                               std::span<const float> values) override {
    const std::lock_guard lock(mutex_);
    --free_slots_;
    fragments_.push_back({header, {values.begin(), values.end()}});
    return state_;
  }
  link::PeerState poll(std::vector<link::DownMessage>& messages) override {
    const std::lock_guard lock(mutex_);
    for (auto& message : std::exchange(coming_, {})) messages.push_back(std::move(message));
    ++polls_;
    return state_;
  }
  std::int64_t bytes_up() const override { return 0; }

  void say(const link::DownHeader& header, link::Values values = {}) {
    const std::lock_guard lock(mutex_);
    coming_.push_back({header, std::move(values)});
  }
  void die() {
    const std::lock_guard lock(mutex_);
    state_ = link::PeerState::lost;
  }
  void give_slots(int slots) {
    const std::lock_guard lock(mutex_);
    free_slots_ += slots;
  }
  std::vector<link::Report> reports() const {
    const std::lock_guard lock(mutex_);
    return reports_;
  }
  std::vector<Fragment> fragments() const {
    const std::lock_guard lock(mutex_);
    return fragments_;
  }
  int polls() const {
    const std::lock_guard lock(mutex_);
    return polls_;
  }

 private:
  mutable std::mutex mutex_;
  link::PeerState state_ = link::PeerState::alive;
  int free_slots_ = 2;
  int polls_ = 0;
  std::vector<link::DownMessage> coming_;
  std::vector<link::Report> reports_;
  std::vector<Fragment> fragments_;
};

}  // namespace archipelago::runtime
