#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "link/message.h"

namespace archipelago::link {

enum class [[nodiscard]] PeerState{alive, lost};

// What is done to a fragment on its way, to try out what happens then.
struct Disturbance {
  bool corrupt = false;          // one bit of its data is turned over on the way
  std::function<void()> inside;  // called when its data has been sent and its flag has not
};

// A leader's end of its pair with a syncer. One thread at a time (the communication thread).
class LeaderEnd {
 public:
  virtual ~LeaderEnd() = default;

  // Puts the report where the syncer reads it, over the one before.
  virtual PeerState put_report(const Report& report) = 0;

  // Whether a fragment can be sent now: one of the pair's two slots was acknowledged.
  virtual bool slot_free() const = 0;

  // Sends a fragment; precondition slot_free(). `data` may be reused on return.
  virtual PeerState put_fragment(const FragmentHeader& header, std::span<const std::byte> data) = 0;

  // Does this to the next fragment that is put.
  virtual void disturb_next(Disturbance disturbance) = 0;

  // Appends what has arrived whole since the last call, in order. Damaged messages are dropped.
  virtual PeerState poll(std::vector<DownMessage>& messages) = 0;

  virtual std::int64_t bytes_up() const = 0;
};

// A fragment in the syncer's own memory; valid until acknowledged. Its header is as it was sent;
// its data may be damaged: who reads them checks header.checksum.
struct ArrivedFragment {
  FragmentHeader header;
  std::span<const std::byte> data;
  int slot = 0;
};

// The syncer's end of all its pairs. One thread at a time. No call waits for a peer.
class SyncerEnd {
 public:
  virtual ~SyncerEnd() = default;

  virtual int peers() const = 0;

  // Makes progress; appends the peers found dead since the last call. A dead peer's pair is never
  // touched again.
  virtual void poll(std::vector<int>& lost) = 0;

  // The peer's newest report if it is newer than the last one read.
  virtual std::optional<Report> read_report(int peer) = 0;

  // A fragment of the peer that was not read yet. Ones whose header is damaged are acknowledged,
  // counted and skipped.
  virtual std::optional<ArrivedFragment> read_fragment(int peer) = 0;

  // Gives the slot back to the peer; its data is gone.
  virtual void acknowledge(int peer, int slot) = 0;

  // Queues a message; header.bytes and header.checksum are set here.
  virtual void send(int peer, DownHeader header, const Payload& data = {}) = 0;

  // Messages with data that have not left yet.
  virtual int data_in_flight(int peer) const = 0;

  // Whether everything that was sent to living peers has left.
  virtual bool drained() const = 0;

  // Headers of fragments so far.
  virtual std::int64_t damaged() const = 0;
  virtual std::int64_t bytes_up() const = 0;
  virtual std::int64_t bytes_down() const = 0;
};

}  // namespace archipelago::link
