#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "model/storage.h"

namespace archipelago::model {

// The ranks among which the experts of a model are divided, and what they send one another. Every
// rank makes the same calls in the same order.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Of `sent`, rank r gets the next sent_counts[r] elements; `received` are those that rank r has
  // for this one, received_counts[r], one rank after the other.
  virtual void exchange(std::span<const float> sent, std::span<const std::int64_t> sent_counts,
                        std::span<float> received,
                        std::span<const std::int64_t> received_counts) = 0;

  // The same for numbers of which every rank gets an equal part.
  virtual void exchange(std::span<const std::int64_t> sent, std::span<std::int64_t> received) = 0;
};

// The tensors of one expert.
struct Expert {
  Parameter in_weight, in_bias, out_weight, out_bias;
};

// The experts of one layer when each rank computes some of them, for the rows of all ranks. Every
// rank holds all parameters; gradients come up on the rank that computes an expert, for the rows of
// all, and are zero elsewhere, so that their mean over the ranks is that of the whole batch.
class ExpertParallel {
 public:
  ExpertParallel(ExpertExchange& exchange, std::vector<Expert> experts, std::int64_t width,
                 std::int64_t inner);

  // result[places, width] of rows_in[places, width], both by place: those of expert e are first[e]
  // to first[e + 1] - 1.
  void forward(kernels::Kernels& kernels, const Storage& storage, const float* rows_in,
               std::span<const std::int32_t> first, float* result);

  // d_rows_in from d_result, by the places of the last forward. May be the same memory.
  void backward(kernels::Kernels& kernels, const Storage& storage, const float* d_result,
                float* d_rows_in);

 private:
  // Rows of one rank for one expert: where they lie by source and by expert.
  struct Block {
    std::int64_t by_source;
    std::int64_t by_expert;
    std::int64_t count;
  };

  int first_expert(int rank) const;
  void agree_on_counts(std::span<const std::int32_t> first);
  void to_owners(const float* rows, float* by_expert);
  void to_sources(const float* by_expert, float* rows);

  ExpertExchange& exchange_;
  std::vector<Expert> experts_;
  std::int64_t width_;
  std::int64_t inner_width_;
  int own_first_;
  int own_end_;

  std::vector<std::int64_t> sent_;      // elements for each rank
  std::vector<std::int64_t> received_;  // elements from each rank
  std::vector<std::int64_t> starts_;    // of each own expert's rows, and their end
  std::vector<Block> blocks_;
  // Grow to the largest step's size and stay.
  kernels::Buffer by_source_, rows_, inner_, act_;
};

}  // namespace archipelago::model
