#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "sync/messages.h"

namespace archipelago::simulate {

// What is to happen, by time; at the same time, in the order in which it was added.
template <typename Item>
class EventQueue {
 public:
  bool empty() const { return entries_.empty(); }
  sync::Nanoseconds next_time() const { return entries_.top().time; }

  void push(sync::Nanoseconds time, const Item& item) {
    std::size_t place = items_.size();
    if (free_.empty()) {
      items_.push_back(item);
    } else {
      place = free_.back();
      free_.pop_back();
      items_[place] = item;
    }
    entries_.push({time, sequence_++, place});
  }

  Item pop() {
    const std::size_t place = entries_.top().place;
    entries_.pop();
    free_.push_back(place);
    return items_[place];
  }

 private:
  // The queue moves these, and leaves the items in their places.
  struct Entry {
    sync::Nanoseconds time;
    std::uint64_t sequence;
    std::size_t place;
    bool operator>(const Entry& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };

  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::vector<Item> items_;
  std::vector<std::size_t> free_;
  std::uint64_t sequence_ = 0;
};

}  // namespace archipelago::simulate
