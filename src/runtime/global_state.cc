#include "runtime/global_state.h"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "core/checksum.h"

namespace archipelago::runtime {
namespace {

// Of each fragment that are kept for learners that hold them.
constexpr std::size_t kEarlierVersions = 4;

}  // namespace

GlobalState::GlobalState(const Setup& setup, Share share)
    : setup_(setup),
      share_(share),
      versions_(setup.fragments.size(), 0),
      published_(setup.fragments.size()),
      earlier_(setup.fragments.size()) {
  std::vector<float> flat(static_cast<std::size_t>(setup.parameters));
  model::initialize_parameters(setup.tensors, setup.config.model, setup.config.train.seed, flat);
  theta_ = split(flat);
  momentum_ = split(std::vector<float>(flat.size(), 0.0F));
  publish_all();
}

GlobalState::GlobalState(const Setup& setup, const checkpoint::Global& state, Share share)
    : setup_(setup),
      share_(share),
      theta_(split(state.common.parameters)),
      momentum_(split(state.momentum)),
      versions_(state.common.versions),
      published_(setup.fragments.size()),
      earlier_(setup.fragments.size()) {
  publish_all();
}

std::shared_ptr<const link::Values> GlobalState::theta(int fragment) const {
  return theta_[at(fragment)];
}

std::shared_ptr<const link::Values> GlobalState::momentum(int fragment) const {
  return momentum_[at(fragment)];
}

GlobalState::MergedFragment GlobalState::merge(int fragment,
                                               const std::vector<sync::MergeInput>& inputs) const {
  const link::Values& old_theta = *theta_[at(fragment)];
  auto theta = std::make_shared<link::Values>(old_theta.size());
  auto momentum = std::make_shared<link::Values>(old_theta.size());
  const sync::OuterSettings outer{setup_.config.sync.outer_lr, setup_.config.sync.outer_momentum};
  sync::merge_fragment(setup_.pieces[at(fragment)], inputs, outer,
                       {old_theta, *momentum_[at(fragment)]}, {*theta, *momentum}, 1);
  auto published = publish(fragment, theta);
  return {fragment, std::move(theta), std::move(momentum), std::move(published)};
}

void GlobalState::adopt(MergedFragment merged) {
  const std::size_t p = at(merged.fragment);
  if (setup_.wire.differences()) {
    earlier_[p].push_back(std::move(theta_[p]));
    if (earlier_[p].size() > kEarlierVersions) earlier_[p].pop_front();
  }
  if (setup_.wire.updates() && !merged.published) {
    merged.published = publish(merged.fragment, merged.theta);
  }
  theta_[p] = std::move(merged.theta);
  momentum_[p] = std::move(merged.momentum);
  published_[p] = std::move(merged.published);
  ++versions_[p];
}

void GlobalState::put(MergedFragment fragment, std::int32_t version) {
  const std::size_t p = at(fragment.fragment);
  theta_[p] = std::move(fragment.theta);
  momentum_[p] = std::move(fragment.momentum);
  published_[p] = std::move(fragment.published);
  versions_[p] = version;
}

std::shared_ptr<const link::Values> GlobalState::theta(int fragment, std::int32_t version) const {
  const std::int64_t age = std::int64_t{versions_[at(fragment)]} - version;
  const auto& earlier = earlier_[at(fragment)];
  if (age == 0) return theta_[at(fragment)];
  if (age < 0 || age > static_cast<std::int64_t>(earlier.size())) return nullptr;
  return earlier[earlier.size() - static_cast<std::size_t>(age)];
}

void GlobalState::drop_unheld(const std::vector<sync::LearnerView>& learners) {
  for (std::size_t p = 0; p < earlier_.size(); ++p) {
    if (earlier_[p].empty()) continue;
    std::int32_t oldest = versions_[p];
    for (const auto& learner : learners) {
      if (!sync::is_alive(learner.state)) continue;
      oldest = std::min(oldest, learner.held.size() == earlier_.size() ? learner.held[p] : 0);
    }
    const auto ages = static_cast<std::size_t>(versions_[p] - std::max(oldest, 0));
    while (earlier_[p].size() > ages) earlier_[p].pop_front();
  }
}

link::Payload GlobalState::payload(int fragment) {
  auto& published = published_[at(fragment)];
  if (!published) published = Published{encode(theta_[at(fragment)])};
  return published->whole;
}

std::optional<GlobalState::Update> GlobalState::update_from(int fragment,
                                                            std::int32_t version) const {
  const auto& published = published_[at(fragment)];
  const std::int64_t age = std::int64_t{versions_[at(fragment)]} - version;
  if (!published || age <= 0 || age > std::ssize(published->updates)) return std::nullopt;
  return published->updates[published->updates.size() - static_cast<std::size_t>(age)];
}

GlobalState::Published GlobalState::publish(
    int fragment, const std::shared_ptr<const link::Values>& theta) const {
  if (setup_.wire.updates()) return publish_update(*published_[at(fragment)], *theta);
  return {encode(theta)};
}

// What the encoding loses is in the next difference, since that is from what learners hold.
GlobalState::Published GlobalState::publish_update(const Published& before,
                                                   const link::Values& theta) const {
  const auto [whole, down] = std::pair(setup_.wire.whole(), setup_.wire.down);
  const fragment::Codec codec(1);
  link::Values scratch;
  const auto held = codec.read(whole, before.whole.bytes(), std::ssize(theta), scratch);
  auto update = codec.encode(down, theta, *held).bytes;
  auto after = codec.advance(whole, before.whole.bytes(), down, update, std::ssize(theta));
  Published published{link::Payload(std::make_shared<const link::Bytes>(std::move(*after))),
                      before.updates};
  published.updates.push_back(
      {link::Payload(std::make_shared<const link::Bytes>(std::move(update))),
       before.whole.checksum(), published.whole.checksum()});
  const std::size_t bytes = published.updates.back().data.bytes().size();
  while (published.updates.size() * bytes >= published.whole.bytes().size()) {
    published.updates.pop_front();
  }
  return published;
}

void GlobalState::publish_all() {
  if (!setup_.wire.updates()) return;
  for (std::size_t p = 0; p < theta_.size(); ++p) {
    if (holds(static_cast<int>(p))) published_[p] = Published{encode(theta_[p])};
  }
}

link::Payload GlobalState::encode(const std::shared_ptr<const link::Values>& theta) const {
  if (setup_.wire.whole() == fragment::Encoding::f32) return link::Payload(theta);
  const fragment::Codec codec(1);
  return link::Payload(
      std::make_shared<const link::Bytes>(codec.encode(setup_.wire.whole(), *theta).bytes));
}

std::vector<float> GlobalState::flat_parameters() const { return join(theta_); }

void GlobalState::describe(checkpoint::Global& state) const {
  state.common.tensors = setup_.tensors;
  state.common.fragment_of_tensor = setup_.fragment_of_tensor;
  state.common.versions = versions_;
}

void GlobalState::fill(checkpoint::Global& state) const {
  describe(state);
  state.common.parameters = join(theta_);
  state.momentum = join(momentum_);
}

checkpoint::GlobalArrays GlobalState::arrays() const {
  return {[this](std::size_t i) { return tensor(theta_, i); },
          [this](std::size_t i) { return tensor(momentum_, i); }};
}

std::span<const float> GlobalState::tensor(const Fragments& fragments, std::size_t tensor) const {
  const std::size_t p = at(setup_.fragment_of_tensor.at(tensor));
  std::size_t begin = 0;
  for (const auto& piece : setup_.fragments[p].pieces) {
    const auto size = static_cast<std::size_t>(piece.size);
    if (static_cast<std::size_t>(piece.tensor) == tensor) {
      return std::span(*fragments[p]).subspan(begin, size);
    }
    begin += size;
  }
  throw std::logic_error("a tensor is in no fragment");
}

std::uint64_t GlobalState::digest() const {
  std::uint64_t sum = 0;
  for (const auto& values : theta_) sum = checksum(std::as_bytes(std::span(*values)), sum);
  return sum;
}

GlobalState::Fragments GlobalState::split(const std::vector<float>& flat) const {
  Fragments fragments(setup_.fragments.size());
  for (std::size_t p = 0; p < fragments.size(); ++p) {
    if (!holds(static_cast<int>(p))) continue;
    const auto& fragment = setup_.fragments[p];
    link::Values packed(static_cast<std::size_t>(fragment.size));
    fragment::gather(fragment, flat, packed);
    fragments[p] = std::make_shared<const link::Values>(std::move(packed));
  }
  return fragments;
}

std::vector<float> GlobalState::join(const Fragments& fragments) const {
  std::vector<float> flat(static_cast<std::size_t>(setup_.parameters));
  for (std::size_t p = 0; p < fragments.size(); ++p) {
    fragment::scatter(setup_.fragments[p], *fragments[p], flat);
  }
  return flat;
}

}  // namespace archipelago::runtime
