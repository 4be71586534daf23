#include "model/expert_parallel.h"

#include <algorithm>
#include <utility>

namespace archipelago::model {

ExpertParallel::ExpertParallel(ExpertExchange& exchange, std::vector<Expert> experts,
                               std::int64_t width, std::int64_t inner)
    : exchange_(exchange),
      experts_(std::move(experts)),
      width_(width),
      inner_width_(inner),
      own_first_(first_expert(exchange.rank())),
      own_end_(first_expert(exchange.rank() + 1)),
      sent_(static_cast<std::size_t>(exchange.ranks())),
      received_(sent_.size()) {}

int ExpertParallel::first_expert(int rank) const {
  return static_cast<int>(experts_.size()) * rank / exchange_.ranks();
}

void ExpertParallel::agree_on_counts(std::span<const std::int32_t> first) {
  const auto ranks = static_cast<std::size_t>(exchange_.ranks());
  const std::size_t experts = experts_.size();
  // Every rank tells every other how many rows it has for each expert.
  std::vector<std::int64_t> told(ranks * experts);
  std::vector<std::int64_t> heard(told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    told[i] = first[i % experts + 1] - first[i % experts];
  }
  exchange_.exchange(told, heard);

  for (std::size_t r = 0; r < ranks; ++r) {
    const auto rank = static_cast<int>(r);
    const auto from = static_cast<std::size_t>(first_expert(rank));
    const auto end = static_cast<std::size_t>(first_expert(rank + 1));
    sent_[r] = (first[end] - first[from]) * width_;
    received_[r] = 0;
  }
  // The rows come by source and in each by expert.
  blocks_.clear();
  std::vector<std::int64_t> next(ranks, 0);  // within each source
  std::int64_t source_start = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    next[r] = source_start;
    for (int e = own_first_; e < own_end_; ++e) {
      const std::int64_t count = heard[r * experts + static_cast<std::size_t>(e)];
      source_start += count;
      received_[r] += count * width_;
    }
  }
  starts_.assign(1, 0);
  for (int e = own_first_; e < own_end_; ++e) {
    std::int64_t place = starts_.back();
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::int64_t count = heard[r * experts + static_cast<std::size_t>(e)];
      blocks_.push_back({next[r], place, count});
      next[r] += count;
      place += count;
    }
    starts_.push_back(place);
  }
}

void ExpertParallel::to_owners(const float* rows, float* by_expert) {
  std::int64_t sent = 0;
  for (const std::int64_t count : sent_) sent += count;
  exchange_.exchange({rows, static_cast<std::size_t>(sent)}, sent_,
                     {by_source_.data(), static_cast<std::size_t>(starts_.back() * width_)},
                     received_);
  for (const Block& block : blocks_) {
    std::copy_n(by_source_.data() + block.by_source * width_, block.count * width_,
                by_expert + block.by_expert * width_);
  }
}

void ExpertParallel::to_sources(const float* by_expert, float* rows) {
  for (const Block& block : blocks_) {
    std::copy_n(by_expert + block.by_expert * width_, block.count * width_,
                by_source_.data() + block.by_source * width_);
  }
  std::int64_t sent = 0;
  for (const std::int64_t count : sent_) sent += count;
  exchange_.exchange({by_source_.data(), static_cast<std::size_t>(starts_.back() * width_)},
                     received_, {rows, static_cast<std::size_t>(sent)}, sent_);
}

void ExpertParallel::forward(kernels::Kernels& kernels, const Storage& storage,
                             const float* rows_in, std::span<const std::int32_t> first,
                             float* result) {
  agree_on_counts(first);
  const std::int64_t C = width_;
  const std::int64_t H = inner_width_;
  const std::int64_t places = starts_.back();
  by_source_.reserve(kernels, places * C);
  float* rows = rows_.reserve(kernels, places * C);
  float* inner = inner_.reserve(kernels, places * H);
  float* act = act_.reserve(kernels, places * (H + C));
  float* out = act + places * H;
  to_owners(rows_in, rows);
  for (int e = own_first_; e < own_end_; ++e) {
    const Expert& expert = experts_[static_cast<std::size_t>(e)];
    const std::int64_t start = starts_[static_cast<std::size_t>(e - own_first_)];
    const std::int64_t count = starts_[static_cast<std::size_t>(e - own_first_) + 1] - start;
    if (count == 0) continue;
    kernels.linear_gelu_forward(act, inner + start * H, rows + start * C,
                                storage.value(expert.in_weight), storage.value(expert.in_bias),
                                count, C, H);
    kernels.linear_forward(out + start * C, act, storage.value(expert.out_weight),
                           storage.value(expert.out_bias), nullptr, count, H, C);
  }
  to_sources(out, result);
}

void ExpertParallel::backward(kernels::Kernels& kernels, const Storage& storage,
                              const float* d_result, float* d_rows_in) {
  const std::int64_t C = width_;
  const std::int64_t H = inner_width_;
  float* d_inner = act_.data();
  float* d_rows = d_inner + starts_.back() * H;
  to_owners(d_result, d_rows);
  for (int e = own_first_; e < own_end_; ++e) {
    const Expert& expert = experts_[static_cast<std::size_t>(e)];
    const std::int64_t start = starts_[static_cast<std::size_t>(e - own_first_)];
    const std::int64_t count = starts_[static_cast<std::size_t>(e - own_first_) + 1] - start;
    if (count == 0) continue;
    const float* rows = rows_.data() + start * C;
    float* inner = inner_.data() + start * H;
    float* d_out = d_rows + start * C;
    kernels.linear_backward_input(d_inner, d_out, storage.value(expert.out_weight), count, H, C);
    kernels.gelu_backward(d_inner, inner, count * H);
    kernels.linear_backward_weight(storage.gradient(expert.out_weight),
                                   storage.gradient(expert.out_bias), inner, d_out, count, H, C);
    kernels.linear_backward_weight(storage.gradient(expert.in_weight),
                                   storage.gradient(expert.in_bias), rows, d_inner, count, C, H);
    kernels.linear_backward_input(d_out, d_inner, storage.value(expert.in_weight), count, C, H);
  }
  to_sources(d_rows, d_rows_in);
}

}  // namespace archipelago::model
