#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "link/message.h"
#include "runtime/setup.h"
#include "sync/membership.h"
#include "sync/merge.h"

namespace archipelago::runtime {

// The global parameters Theta and the outer momentum, by fragment. A merge makes new values and
// puts them in the place of the old, so that whoever still sends or saves the old ones may finish.
class GlobalState {
 public:
  // Parameters from config.train.seed, momentum 0, versions 0. Only the fragments of the share are
  // held; of the others there is nothing but what put() brings.
  explicit GlobalState(const Setup& setup, Share share = {});

  // As a checkpoint left it; `state` fits the setup (checkpoint::require_same_model).
  GlobalState(const Setup& setup, const checkpoint::Global& state, Share share = {});

  const Wire& wire() const { return setup_.wire; }

  // Whether it belongs to the share.
  bool holds(int fragment) const { return share_.holds(fragment); }

  std::shared_ptr<const link::Values> theta(int fragment) const;
  // Of an earlier version that a learner may still hold; null when it is not kept any more.
  std::shared_ptr<const link::Values> theta(int fragment, std::int32_t version) const;

  // The fragment as learners hold it, whole (Wire::whole()). They all come to the same bytes of a
  // version, whoever sends them, when, and in which of the two ways.
  link::Payload payload(int fragment);

  // Where updates travel, the one that leads from `version` to the next; nothing when it is not
  // kept.
  struct Update {
    link::Payload data;
    std::uint64_t base;   // checksum of the whole fragment before
    std::uint64_t whole;  // and after
  };
  std::optional<Update> update_from(int fragment, std::int32_t version) const;

  std::shared_ptr<const link::Values> momentum(int fragment) const;
  std::int32_t version(int fragment) const { return versions_[at(fragment)]; }
  const std::vector<std::int32_t>& versions() const { return versions_; }

  // What learners are sent of a fragment.
  struct Published {
    link::Payload whole;
    // The last ones, newest last, as long as they take fewer bytes than the whole fragment.
    std::deque<Update> updates = {};
  };

  // The values of a fragment after a merge, made without touching the present ones.
  struct MergedFragment {
    int fragment;
    std::shared_ptr<const link::Values> theta;
    std::shared_ptr<const link::Values> momentum;
    std::optional<Published> published = {};  // of theta; nothing: made when it is needed
  };
  MergedFragment merge(int fragment, const std::vector<sync::MergeInput>& inputs) const;

  // Puts them in place; version + 1. Where learners send differences the version before is kept.
  void adopt(MergedFragment merged);

  // Takes a fragment from the syncer that holds it.
  void put(MergedFragment fragment, std::int32_t version);

  // Forgets the earlier versions that none of these learners holds.
  void drop_unheld(const std::vector<sync::LearnerView>& learners);

  // Theta as one flat buffer in the model's order. This and all below need every fragment.
  std::vector<float> flat_parameters() const;

  // Fills in what a global checkpoint says of the fragments; fill() copies their values too.
  void describe(checkpoint::Global& state) const;
  void fill(checkpoint::Global& state) const;

  // The values; valid as long as this, or a copy, which shares them.
  checkpoint::GlobalArrays arrays() const;

  // Digest of Theta's bits.
  std::uint64_t digest() const;

 private:
  using Fragments = std::vector<std::shared_ptr<const link::Values>>;

  static std::size_t at(int fragment) { return static_cast<std::size_t>(fragment); }
  // Of the share.
  Fragments split(const std::vector<float>& flat) const;
  std::vector<float> join(const Fragments& fragments) const;
  std::span<const float> tensor(const Fragments& fragments, std::size_t tensor) const;
  link::Payload encode(const std::shared_ptr<const link::Values>& theta) const;
  // After the present version of the fragment.
  Published publish(int fragment, const std::shared_ptr<const link::Values>& theta) const;
  Published publish_update(const Published& before, const link::Values& theta) const;
  // Updates begin from what is published, so that this is there from the start.
  void publish_all();

  const Setup& setup_;
  Share share_;
  Fragments theta_;
  Fragments momentum_;
  std::vector<std::int32_t> versions_;
  std::vector<std::optional<Published>> published_;
  std::vector<std::deque<std::shared_ptr<const link::Values>>> earlier_;  // newest last
};

}  // namespace archipelago::runtime
