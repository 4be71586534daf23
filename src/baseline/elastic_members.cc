#include "baseline/elastic_members.h"

namespace archipelago::baseline {

ElasticMembers::ElasticMembers(const runtime::Layout& layout, int learners)
    : layout_(layout),
      learners_(index(learners)),
      rank_lives_(index(layout.world_size()), true),
      island_lives_(index(layout.islands), true) {
  for (int learner = 0; learner < learners; ++learner) learners_[index(learner)].island = learner;
}

std::optional<int> ElasticMembers::lose(int rank) {
  const int island = layout_.island_of(rank);
  const auto learner = learner_of(island);
  rank_lives_.at(index(rank)) = false;
  island_lives_.at(index(island)) = false;
  if (learner) learners_[index(*learner)].island.reset();
  return learner;
}

std::vector<int> ElasticMembers::fill() {
  std::vector<int> filled;
  auto spares = spare_islands();
  for (std::size_t learner = 0; learner < learners_.size() && !spares.empty(); ++learner) {
    if (learners_[learner].island) continue;
    learners_[learner].island = spares.front();
    ++learners_[learner].incarnation;
    spares.erase(spares.begin());
    filled.push_back(static_cast<int>(learner));
  }
  return filled;
}

std::optional<int> ElasticMembers::learner_of(int island) const {
  for (std::size_t learner = 0; learner < learners_.size(); ++learner) {
    if (learners_[learner].island == island) return static_cast<int>(learner);
  }
  return std::nullopt;
}

std::vector<int> ElasticMembers::living_learners() const {
  std::vector<int> living;
  for (std::size_t learner = 0; learner < learners_.size(); ++learner) {
    if (learners_[learner].island) living.push_back(static_cast<int>(learner));
  }
  return living;
}

std::vector<RingMember> ElasticMembers::ring() const {
  std::vector<RingMember> ring;
  for (const int learner : living_learners()) {
    const int first = layout_.first_rank(*island_of(learner));
    for (int rank = first; rank < first + layout_.ranks_per_island; ++rank) {
      ring.push_back({.rank = rank, .learner = learner});
    }
  }
  return ring;
}

std::vector<int> ElasticMembers::spare_islands() const {
  std::vector<int> spares;
  for (int island = 0; island < layout_.islands; ++island) {
    if (island_lives_[index(island)] && !learner_of(island)) spares.push_back(island);
  }
  return spares;
}

std::vector<int> ElasticMembers::living_ranks() const {
  std::vector<int> ranks;
  for (int rank = layout_.syncers; rank < layout_.world_size(); ++rank) {
    if (rank_lives_[index(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace archipelago::baseline
