#pragma once

#include <optional>
#include <vector>

#include "baseline/elastic_messages.h"
#include "runtime/layout.h"

namespace archipelago::baseline {

// Who plays which learner in elastic data-parallel training. Knows nothing of MPI or time.
class ElasticMembers {
 public:
  // The first islands play the learners, the others are spares.
  ElasticMembers(const runtime::Layout& layout, int learners);

  // The rank has died, and its island's others are of no use any more. Returns the learner that has
  // lost its island by this, which then has none.
  std::optional<int> lose(int rank);

  // Gives spare islands to learners without one, as long as there are any. Returns these learners;
  // each of them begins its next life.
  std::vector<int> fill();

  int incarnation(int learner) const { return learners_.at(index(learner)).incarnation; }
  // Nothing where nobody plays the learner.
  std::optional<int> island_of(int learner) const { return learners_.at(index(learner)).island; }
  std::optional<int> learner_of(int island) const;

  // Learners that are played, in order.
  std::vector<int> living_learners() const;
  // All their ranks, in this order; no one receives.
  std::vector<RingMember> ring() const;
  std::vector<int> spare_islands() const;
  // Every rank but the coordinator that has not died, also those of no use any more.
  std::vector<int> living_ranks() const;

 private:
  struct Learner {
    std::optional<int> island;
    int incarnation = 0;
  };
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  runtime::Layout layout_;
  std::vector<Learner> learners_;
  std::vector<bool> rank_lives_;
  std::vector<bool> island_lives_;
};

}  // namespace archipelago::baseline
