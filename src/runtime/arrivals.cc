#include "runtime/arrivals.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/log.h"

namespace archipelago::runtime {
namespace {

// Beside learners that train on the same cores.
constexpr int kThreads = 1;

}  // namespace

Arrivals::Arrivals(const Setup& setup, link::SyncerEnd& link, const GlobalState& state)
    : setup_(setup), link_(link), state_(state), codec_(kThreads) {}

sync::Delivery Arrivals::Taken::delivery() const {
  return {
      header.learner, header.incarnation, header.round,     header.fragment, header.base_version,
      header.steps,   header.tokens,      header.at_tokens, header.loss,     norm};
}

void Arrivals::take(int peer, const link::ArrivedFragment& fragment) {
  const bool fits = this->fits(fragment);
  if (fits && !has(key_of(fragment.header))) return begin(peer, fragment);
  if (!fits) ++refused_;  // what was asked for twice may come twice
  link_.acknowledge(peer, fragment.slot);
}

bool Arrivals::has(const Key& key) const {
  return arrived_.contains(key) || std::ranges::any_of(incoming_, [&](const Incoming& incoming) {
           return key_of(incoming.header) == key;
         });
}

bool Arrivals::fits(const link::ArrivedFragment& fragment) const {
  const auto& header = fragment.header;
  if (header.fragment < 0 || header.fragment >= setup_.fragment_count() ||
      !state_.holds(header.fragment)) {
    return false;
  }
  const auto elements = setup_.fragments[static_cast<std::size_t>(header.fragment)].size;
  return header.encoding == static_cast<std::int32_t>(setup_.wire.up) &&
         std::ssize(fragment.data) == fragment::encoded_size(setup_.wire.up, elements);
}

void Arrivals::begin(int peer, const link::ArrivedFragment& fragment) {
  const auto& header = fragment.header;
  const auto p = static_cast<std::size_t>(header.fragment);
  const std::int64_t elements = setup_.fragments[p].size;
  const auto size = static_cast<std::size_t>(elements);
  Arrived arrived{fragment.slot,
                  peer,
                  header.fragment,
                  nullptr,
                  {},
                  state_.theta(header.fragment),
                  sync::SquaredNorms(setup_.pieces[p])};
  std::shared_ptr<const link::Values> base;
  std::span<float> decoded;
  if (!setup_.wire.differences()) {
    arrived.values = {reinterpret_cast<const float*>(fragment.data.data()), size};
  } else {
    base = state_.theta(header.fragment, header.base_version);
    if (base != nullptr) {
      arrived.decoded = std::make_unique_for_overwrite<float[]>(size);
      decoded = {arrived.decoded.get(), size};
      arrived.values = decoded;
    }
  }
  const std::span<const float> from = base != nullptr ? std::span(*base) : std::span<const float>();
  fragment::Reader reader(codec_, setup_.wire.up, fragment.data, elements, from, decoded);
  incoming_.push_back({header, std::move(arrived), std::move(base), std::move(reader)});
}

std::vector<Arrivals::Taken> Arrivals::read(std::int64_t elements) {
  std::vector<Taken> taken;
  while (!incoming_.empty() && elements > 0) {
    Incoming& incoming = incoming_.front();
    const std::int64_t end = incoming.reader.read_part();
    elements -= kernels::kWirePart;
    Arrived& arrived = incoming.arrived;
    if (!arrived.values.empty()) arrived.squares.add(*arrived.theta, arrived.values, end);
    if (!incoming.reader.done()) continue;
    Incoming done = std::move(incoming);
    incoming_.pop_front();
    if (auto whole = finish(std::move(done))) taken.push_back(*whole);
  }
  return taken;
}

std::optional<Arrivals::Taken> Arrivals::finish(Incoming incoming) {
  Arrived& arrived = incoming.arrived;
  const bool damaged = incoming.reader.checksum() != incoming.header.checksum;
  const bool stays_in_slot = !damaged && arrived.decoded == nullptr && !arrived.values.empty();
  if (!stays_in_slot) {
    link_.acknowledge(arrived.peer, *arrived.slot);
    arrived.slot.reset();
  }
  if (damaged) {
    ++refused_;
    log_warning("dropped a damaged fragment of island " + std::to_string(arrived.peer));
    return std::nullopt;
  }
  const double norm =
      arrived.values.empty() ? std::numeric_limits<double>::quiet_NaN() : arrived.squares.norm();
  arrived_.emplace(key_of(incoming.header), std::move(arrived));
  return Taken{incoming.header, norm};
}

sync::MergeInput Arrivals::input(const Key& key, double weight) const {
  const Arrived& arrived = arrived_.at(key);
  const bool is_present = arrived.theta == state_.theta(arrived.fragment);
  return {arrived.values, weight,
          is_present ? std::span(arrived.squares.of_pieces()) : std::span<const double>()};
}

void Arrivals::release(const Key& key) {
  const auto entry = arrived_.find(key);
  if (entry == arrived_.end()) return;
  if (entry->second.slot) link_.acknowledge(entry->second.peer, *entry->second.slot);
  arrived_.erase(entry);
}

}  // namespace archipelago::runtime
