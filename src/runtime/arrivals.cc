#include "runtime/arrivals.h"

#include <limits>
#include <utility>

#include "sync/merge.h"

namespace archipelago::runtime {
namespace {

// Beside learners that train on the same cores.
constexpr int kThreads = 1;

}  // namespace

Arrivals::Arrivals(const Setup& setup, link::SyncerEnd& link, const GlobalState& state)
    : setup_(setup), link_(link), state_(state), codec_(kThreads) {}

std::optional<double> Arrivals::take(int peer, const link::ArrivedFragment& fragment) {
  const auto& header = fragment.header;
  const Key key{header.learner, header.incarnation, header.round};
  auto arrived = arrived_.contains(key) ? std::nullopt : read(peer, fragment);
  if (!arrived || !arrived->slot) link_.acknowledge(peer, fragment.slot);
  if (!arrived) {
    ++refused_;
    return std::nullopt;
  }
  const double norm = arrived->values.empty()
                          ? std::numeric_limits<double>::quiet_NaN()
                          : sync::distance(*state_.theta(header.fragment), arrived->values);
  arrived_.emplace(key, *std::move(arrived));
  return norm;
}

std::optional<Arrivals::Arrived> Arrivals::read(int peer,
                                                const link::ArrivedFragment& fragment) const {
  const auto& header = fragment.header;
  if (header.fragment < 0 || header.fragment >= setup_.fragment_count()) return std::nullopt;
  const auto elements = setup_.fragments[static_cast<std::size_t>(header.fragment)].size;
  const auto encoding = setup_.wire.up;
  if (header.encoding != static_cast<std::int32_t>(encoding)) return std::nullopt;
  Arrived arrived{peer, std::nullopt, {}, {}};
  if (!setup_.wire.differences()) {
    const auto values = codec_.read(encoding, fragment.data, elements, arrived.decoded);
    if (!values) return std::nullopt;
    arrived.slot = fragment.slot;
    arrived.values = *values;
    return arrived;
  }
  const auto base = state_.theta(header.fragment, header.base_version);
  if (base == nullptr) return arrived;  // its values can't be known
  arrived.decoded.resize(static_cast<std::size_t>(elements));
  if (!codec_.decode(encoding, fragment.data, *base, arrived.decoded)) return std::nullopt;
  arrived.values = arrived.decoded;
  return arrived;
}

void Arrivals::release(const Key& key) {
  const auto entry = arrived_.find(key);
  if (entry == arrived_.end()) return;
  if (entry->second.slot) link_.acknowledge(entry->second.peer, *entry->second.slot);
  arrived_.erase(entry);
}

}  // namespace archipelago::runtime
