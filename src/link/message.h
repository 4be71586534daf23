#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/checksum.h"

namespace archipelago::link {

// ---- Up: leader to syncer
// --------------------------------------------------------------------------

enum class Phase : std::int32_t {
  ready = 0,     // an idle island that waits for an order
  playing = 1,   // a learner: joining or training
  paused = 2,    // a learner that has stopped stepping because training is complete
  finished = 3,  // has written its checkpoint after finish and waits for leave
  leaving = 4,   // was asked to leave the run, and is gone in a moment
};

// A leader's whole state as the syncer needs it. Only the latest counts, so a newer one simply
// overwrites it.
struct Report {
  Phase phase = Phase::ready;
  std::int64_t orders = 0;  // number of the last order that this island has followed
  std::int32_t learner = -1;
  std::int32_t incarnation = -1;
  std::int64_t step = 0;            // inner steps of this learner id
  std::int64_t tokens = 0;          // tokens of this learner id
  std::int64_t lease = 0;           // number of the last lease that this life has followed
  std::int64_t lease_tokens = 0;    // `tokens` when it began to follow it
  double step_seconds = 0;          // of recent inner steps; 0: not known yet
  double loss = 0;                  // of the last inner step, nats a token
  double accuracy = -1;             // of the last inner step, images only; below 0: none
  double learning_rate = 0;         // of the last inner step
  double gradient_norm = 0;         // of the last inner step, before clipping
  std::int64_t life_steps = 0;      // inner steps of this life
  double blocked_seconds = 0;       // time the inner steps waited for the exchange, this life
  double busy_seconds = 0;          // time since this life's first step
  double joules = 0;                // that the island has used in this life; NaN: not available
  double memory_ratio = 0;          // resident because of the model, against the sum of its parts
  std::int64_t resident_bytes = 0;  // of the leader's process
  std::vector<std::int32_t> held;   // (P) version held of each fragment, -1: none
};

// The loss; NaN where the step changed nothing because its gradients were not finite, which a loss
// may still be then: parameters so large that a layer norm makes zeros of them tell all outputs
// alike.
inline double sound_loss(double loss, double gradient_norm) {
  return std::isfinite(gradient_norm) ? loss : std::numeric_limits<double>::quiet_NaN();
}
inline double sound_loss(const Report& report) {
  return sound_loss(report.loss, report.gradient_norm);
}

// What stands before a fragment's data on its way up.
struct FragmentHeader {
  std::int32_t learner = -1;
  std::int32_t incarnation = -1;
  std::int64_t round = 0;
  std::int32_t fragment = 0;
  std::int32_t base_version = 0;
  std::int64_t steps = 0;      // c_steps
  std::int64_t tokens = 0;     // c_tokens
  std::int64_t at_tokens = 0;  // Report::tokens when it was copied
  double loss = 0;             // the highest sound_loss() of its steps; NaN if one was
  std::int64_t elements = 0;   // that the data stands for
  std::int64_t bytes = 0;      // of the data; set by the link
  std::uint64_t checksum = 0;  // of the data, kernels::wire_checksum(); set by who encodes them
  std::int32_t encoding = 0;   // of the data, fragment::Encoding
  std::int32_t unused = 0;
};

// ---- Down: syncer to leader
// ------------------------------------------------------------------------

enum class DownKind : std::int32_t {
  assign,       // order: become `learner` in life `incarnation`, data from `tokens` on
  expel,        // order: your place was given away, become a spare
  retire,       // order: write a checkpoint, become a spare
  lease,        // train on these data shards: their words follow
  fragment,     // Theta of `fragment` at `version`; the data follows
  ask,          // send your copy of `fragment` for `round`
  acknowledge,  // slot `slot` may be used again (handled inside the link)
  pause,        // training is complete
  finish,       // write a checkpoint, report finished
  leave,        // the run is concluded: end the process
  turn,         // the sender is the present syncer (handled by the communication thread)
  fault,        // a planned fault (chaos): `fault` in `seconds`, `factor`
};

struct DownHeader {
  DownKind kind = DownKind::assign;
  std::int32_t slot = 0;
  std::int32_t learner = -1;
  std::int32_t incarnation = -1;
  std::int64_t round = 0;  // ask: the round; an order or a lease: its number, from 1
  std::int32_t fragment = 0;
  std::int32_t version = 0;     // fragment: of its data; ask: of the syncer's own; lease: shards
                                // that all the data is dealt out to
  std::int64_t tokens = 0;      // assign: where to go on; fragment: trained by all learners so far
  std::int64_t elements = 0;    // that the data stands for
  std::int64_t bytes = 0;       // of the data that follows; set by the link
  std::uint64_t checksum = 0;   // of the data; set by the link
  std::int32_t fault = 0;       // FaultKind of src/runtime/chaos.h
  std::int32_t fault_rank = 0;  // island rank that the fault hits
  double seconds = 0;
  double factor = 0;
  std::int32_t orderly = 0;   // finish: 1 when nobody died, so MPI_Finalize is safe
  std::int32_t moment = 0;    // fault: Moment of src/runtime/chaos.h
  std::int32_t encoding = 0;  // of the data, fragment::Encoding
  // A fragment that comes as the difference from the version before: checksums of the whole data of
  // that and of this version.
  std::uint64_t base_checksum = 0;
  std::uint64_t whole_checksum = 0;
};

using Values = std::vector<float>;
using Bytes = std::vector<std::byte>;

struct DownMessage {
  DownHeader header;
  Bytes data;
};

// Data that is on its way to several peers: shared, not copied.
class Payload {
 public:
  Payload() = default;
  // Of the bytes of a vector.
  template <typename Element>
  explicit Payload(std::shared_ptr<const std::vector<Element>> elements)
      : bytes_(std::as_bytes(std::span(*elements))),
        checksum_(archipelago::checksum(bytes_)),
        owner_(std::move(elements)) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t checksum() const { return checksum_; }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t checksum_ = archipelago::checksum({});
  std::shared_ptr<const void> owner_;
};

}  // namespace archipelago::link
