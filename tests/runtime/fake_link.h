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
    link::Payload data;
  };

  explicit FakeSyncerEnd(int peers) : in_flight_(static_cast<std::size_t>(peers), 0) {}

  int peers() const override { return static_cast<int>(in_flight_.size()); }
  void poll(std::vector<int>&) override {}
  std::optional<link::Report> read_report(int) override { return std::nullopt; }
  std::optional<link::ArrivedFragment> read_fragment(int) override { return std::nullopt; }
  void acknowledge(int peer, int slot) override { acknowledged.emplace_back(peer, slot); }
  void send(int peer, link::DownHeader header, const link::Payload& data) override {
    if (!data.bytes().empty()) ++in_flight_.at(static_cast<std::size_t>(peer));
    sent.push_back({peer, header, data});
  }
  int data_in_flight(int peer) const override {
    return in_flight_.at(static_cast<std::size_t>(peer));
  }
  bool drained() const override { return true; }
  std::int64_t damaged() const override { return 0; }
  std::int64_t bytes_up() const override { return 0; }
  std::int64_t bytes_down() const override { return 0; }

  void let_one_leave(int peer) { --in_flight_.at(static_cast<std::size_t>(peer)); }

  std::vector<Sent> sent;
  std::vector<std::pair<int, int>> acknowledged;  // peer, slot

 private:
  std::vector<int> in_flight_;
};

inline link::Bytes bytes_of(const link::Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// A leader's end in memory: the test says what comes down and looks at what went up. Thread-safe,
// since the communication thread uses it.
class FakeLeaderEnd : public link::LeaderEnd {
 public:
  struct Fragment {
    link::FragmentHeader header;
    link::Bytes data;
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
                               std::span<const std::byte> data) override {
    const std::lock_guard lock(mutex_);
    --free_slots_;
    fragments_.push_back({header, {data.begin(), data.end()}});
    return state_;
  }
  void disturb_next(link::Disturbance disturbance) override {
    const std::lock_guard lock(mutex_);
    disturbances_.push_back(std::move(disturbance));
  }
  link::PeerState poll(std::vector<link::DownMessage>& messages) override {
    const std::lock_guard lock(mutex_);
    for (auto& message : std::exchange(coming_, {})) messages.push_back(std::move(message));
    ++polls_;
    return state_;
  }
  std::int64_t bytes_up() const override { return 0; }

  void say(const link::DownHeader& header, const link::Values& values = {}) {
    const std::lock_guard lock(mutex_);
    coming_.push_back({header, bytes_of(values)});
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
  std::vector<link::Disturbance> disturbances() const {
    const std::lock_guard lock(mutex_);
    return disturbances_;
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
  std::vector<link::Disturbance> disturbances_;
};

}  // namespace archipelago::runtime
