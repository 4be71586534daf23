#include "runtime/global_state.h"

#include <span>

#include "core/checksum.h"

namespace archipelago::runtime {

GlobalState::GlobalState(const Setup& setup) : setup_(setup), versions_(setup.fragments.size(), 0) {
  std::vector<float> flat(static_cast<std::size_t>(setup.parameters));
  model::initialize_parameters(setup.tensors, static_cast<int>(setup.config.model.layers),
                               setup.config.train.seed, flat);
  theta_ = split(flat);
  momentum_ = split(std::vector<float>(flat.size(), 0.0F));
}

GlobalState::GlobalState(const Setup& setup, const checkpoint::Global& state)
    : setup_(setup),
      theta_(split(state.common.parameters)),
      momentum_(split(state.momentum)),
      versions_(state.common.versions) {}

std::shared_ptr<const link::Values> GlobalState::theta(int fragment) const {
  return theta_[at(fragment)];
}

std::shared_ptr<const link::Values> GlobalState::momentum(int fragment) const {
  return momentum_[at(fragment)];
}

GlobalState::MergedFragment GlobalState::merge(int fragment,
                                               const std::vector<sync::MergeInput>& inputs) const {
  auto theta = std::make_shared<link::Values>(*theta_[at(fragment)]);
  auto momentum = std::make_shared<link::Values>(*momentum_[at(fragment)]);
  const sync::OuterSettings outer{setup_.config.sync.outer_lr, setup_.config.sync.outer_momentum};
  sync::merge_fragment(setup_.pieces[at(fragment)], inputs, outer, *theta, *momentum, 1);
  return {fragment, std::move(theta), std::move(momentum)};
}

void GlobalState::adopt(MergedFragment merged) {
  theta_[at(merged.fragment)] = std::move(merged.theta);
  momentum_[at(merged.fragment)] = std::move(merged.momentum);
  ++versions_[at(merged.fragment)];
}

std::vector<float> GlobalState::flat_parameters() const { return join(theta_); }

checkpoint::Global GlobalState::checkpoint() const {
  checkpoint::Global state;
  state.common.tensors = setup_.tensors;
  state.common.parameters = join(theta_);
  state.common.fragment_of_tensor = setup_.fragment_of_tensor;
  state.common.versions = versions_;
  state.momentum = join(momentum_);
  return state;
}

std::uint64_t GlobalState::digest() const {
  std::uint64_t sum = 0;
  for (const auto& values : theta_) sum = checksum(std::as_bytes(std::span(*values)), sum);
  return sum;
}

GlobalState::Fragments GlobalState::split(const std::vector<float>& flat) const {
  Fragments fragments;
  for (const auto& fragment : setup_.fragments) {
    link::Values packed(static_cast<std::size_t>(fragment.size));
    fragment::gather(fragment, flat, packed);
    fragments.push_back(std::make_shared<const link::Values>(std::move(packed)));
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
