#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "fragment/codec.h"
#include "link/link.h"
#include "runtime/global_state.h"
#include "runtime/setup.h"
#include "sync/merge.h"
#include "sync/norms.h"

namespace archipelago::runtime {

// The learners' fragments at the syncer, from their arrival until they are merged or dropped. Each
// is gone over once before it counts, between the syncer's other work: summed up, decoded, measured
// against Theta.
class Arrivals {
 public:
  using Key = std::tuple<int, int, std::int64_t>;  // learner, incarnation, round

  // A fragment that has been read through.
  struct Taken {
    link::FragmentHeader header;
    // Length of its difference from Theta, not finite if any element is not or it is from a version
    // that is not kept.
    double norm;

    sync::Delivery delivery() const;
  };

  // References must outlive this.
  Arrivals(const Setup& setup, link::SyncerEnd& link, const GlobalState& state);

  // Takes a fragment in to be read, refuses a foreign one, drops what is there already.
  void take(int peer, const link::ArrivedFragment& fragment);

  // Reads on, about so many elements, in the order of arrival. What came to its end; a damaged
  // fragment is refused.
  std::vector<Taken> read(std::int64_t elements);

  // Whether there is something to read.
  bool reading() const { return !incoming_.empty(); }

  // A learner's fragment that was read through, and what a merge needs to know of it; valid until
  // released.
  std::span<const float> values(const Key& key) const { return arrived_.at(key).values; }
  sync::MergeInput input(const Key& key, double weight) const;

  void release(const Key& key);

  std::int64_t refused() const { return refused_; }

 private:
  struct Arrived {
    std::optional<int> slot;  // that it still stands in
    int peer;
    int fragment;
    std::unique_ptr<float[]> decoded;  // else
    std::span<const float> values;     // empty: of a version that is not kept
    std::shared_ptr<const link::Values> theta;
    sync::SquaredNorms squares;  // of the difference from this Theta
  };
  struct Incoming {
    link::FragmentHeader header;
    Arrived arrived;
    std::shared_ptr<const link::Values> base;  // that the data is the difference from
    fragment::Reader reader;
  };

  static Key key_of(const link::FragmentHeader& header) {
    return {header.learner, header.incarnation, header.round};
  }
  bool has(const Key& key) const;
  bool fits(const link::ArrivedFragment& fragment) const;
  void begin(int peer, const link::ArrivedFragment& fragment);
  std::optional<Taken> finish(Incoming incoming);

  const Setup& setup_;
  link::SyncerEnd& link_;
  const GlobalState& state_;
  fragment::Codec codec_;
  std::deque<Incoming> incoming_;
  std::map<Key, Arrived> arrived_;
  std::int64_t refused_ = 0;
};

}  // namespace archipelago::runtime
