#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "fragment/codec.h"
#include "link/link.h"
#include "runtime/global_state.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// The learners' fragments at the syncer, from their arrival until they are merged or dropped.
class Arrivals {
 public:
  using Key = std::tuple<int, int, std::int64_t>;  // learner, incarnation, round

  // References must outlive this.
  Arrivals(const Setup& setup, link::SyncerEnd& link, const GlobalState& state);

  // Takes a fragment in; the length of its difference from Theta, not finite if any element is not
  // or it is from a version that is not kept. Nothing when it is refused: foreign, or twice the
  // same.
  std::optional<double> take(int peer, const link::ArrivedFragment& fragment);

  // The learner's fragment; valid until released.
  std::span<const float> values(const Key& key) const { return arrived_.at(key).values; }

  void release(const Key& key);

  std::int64_t refused() const { return refused_; }

 private:
  struct Arrived {
    int peer = 0;
    std::optional<int> slot;  // that it still stands in
    link::Values decoded;     // else
    std::span<const float> values;
  };

  std::optional<Arrived> read(int peer, const link::ArrivedFragment& fragment) const;

  const Setup& setup_;
  link::SyncerEnd& link_;
  const GlobalState& state_;
  fragment::Codec codec_;
  std::map<Key, Arrived> arrived_;
  std::int64_t refused_ = 0;
};

}  // namespace archipelago::runtime
