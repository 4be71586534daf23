#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "island/island.h"
#include "link/replica.h"
#include "sync/messages.h"

namespace archipelago::runtime {

// What a syncer has counted so far.
struct Tally {
  std::int64_t bytes_up = 0;
  std::int64_t bytes_down = 0;
  std::int64_t refused = 0;  // fragments, damaged ones too
  double largest_gap = 0;    // seconds between two turns of its loop
};

std::string encode(const Tally& tally);
// Throws Error(internal) for a text that is none.
Tally decode_tally(const std::string& text);

// The syncers that merge beside the first one, as that one sees them (MergingSyncer is the other
// side).
class OtherSyncers {
 public:
  struct Streams {
    std::unique_ptr<link::ReplicaSender> decisions;
    std::unique_ptr<link::ReplicaReceiver> events;
    std::unique_ptr<link::ReplicaReceiver> fragments;
  };

  // What has come since the last call.
  struct News {
    std::vector<sync::Event> events;              // Delivery and Merged
    std::vector<link::ReplicaMessage> fragments;  // parts
    std::optional<std::string> loss;              // who is dead or silent
  };

  // `silence`: seconds without a word after which a syncer counts as dead.
  explicit OtherSyncers(double silence);

  // The next syncer, from number 1 on; `member` says where it is.
  void add(Streams streams, island::Member member);

  // The entry of the event tape goes to each of them.
  void tell(const std::string& entry);

  // Asks for every fragment of theirs, as it stands after the entries told so far.
  void collect(std::int64_t cut);

  News poll();

  // Sends a sign of life where one is due.
  void beat();

  void conclude(bool orderly);
  bool drained() const;
  bool lost() const { return lost_; }  // one of them

  Tally tally() const;            // of all together
  nlohmann::json status() const;  // [{host, pid}]

  void close();  // collective over the pairs

 private:
  struct Other {
    Streams streams;
    island::Member member;
    double last_heard;
    Tally tally;
  };

  void take_in(Other& other, News& news);

  double silence_;
  std::vector<Other> others_;
  double next_beat_ = 0;
  double last_poll_;
  bool lost_ = false;
};

}  // namespace archipelago::runtime
