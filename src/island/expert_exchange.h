#pragma once

#include "island/island.h"
#include "model/expert_parallel.h"

namespace archipelago::island {

// The ranks of an island as those among which a model's experts are divided.
class ExpertExchange final : public model::ExpertExchange {
 public:
  // The island must outlive this.
  explicit ExpertExchange(Island& island) : island_(island) {}

  int rank() const override { return island_.rank(); }
  int ranks() const override { return island_.size(); }
  void exchange(std::span<const float> sent, std::span<const std::int64_t> sent_counts,
                std::span<float> received, std::span<const std::int64_t> received_counts) override {
    island_.all_to_all(sent, sent_counts, received, received_counts);
  }
  void exchange(std::span<const std::int64_t> sent, std::span<std::int64_t> received) override {
    island_.all_to_all(sent, received);
  }

 private:
  Island& island_;
};

}  // namespace archipelago::island
