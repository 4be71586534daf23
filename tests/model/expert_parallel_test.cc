#include "model/expert_parallel.h"

#include <barrier>
#include <cmath>
#include <thread>

#include "model_test.h"

namespace archipelago::model {
namespace {

// Threads of this process as ranks.
class Ranks {
 public:
  explicit Ranks(int count) : count_(count), barrier_(count) {
    sent_.resize(static_cast<std::size_t>(count));
    sent_counts_.resize(sent_.size());
    sent_numbers_.resize(sent_.size());
  }

  class Exchange final : public ExpertExchange {
   public:
    Exchange(Ranks& ranks, int rank) : ranks_(ranks), rank_(rank) {}
    int rank() const override { return rank_; }
    int ranks() const override { return ranks_.count_; }

    void exchange(std::span<const float> sent, std::span<const std::int64_t> sent_counts,
                  std::span<float> received,
                  std::span<const std::int64_t> received_counts) override {
      ranks_.sent_[at(rank_)] = sent;
      ranks_.sent_counts_[at(rank_)] = sent_counts;
      ranks_.barrier_.arrive_and_wait();
      std::int64_t to = 0;
      for (int from = 0; from < ranks_.count_; ++from) {
        std::int64_t start = 0;
        for (int r = 0; r < rank_; ++r) start += ranks_.sent_counts_[at(from)][at(r)];
        const std::int64_t count = ranks_.sent_counts_[at(from)][at(rank_)];
        EXPECT_EQ(count, received_counts[at(from)]);
        std::copy_n(ranks_.sent_[at(from)].begin() + start, count, received.begin() + to);
        to += count;
      }
      ranks_.barrier_.arrive_and_wait();
    }

    void exchange(std::span<const std::int64_t> sent, std::span<std::int64_t> received) override {
      ranks_.sent_numbers_[at(rank_)] = sent;
      ranks_.barrier_.arrive_and_wait();
      const auto each = static_cast<std::int64_t>(sent.size()) / ranks_.count_;
      for (int from = 0; from < ranks_.count_; ++from) {
        std::copy_n(ranks_.sent_numbers_[at(from)].begin() + rank_ * each, each,
                    received.begin() + from * each);
      }
      ranks_.barrier_.arrive_and_wait();
    }

   private:
    static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
    Ranks& ranks_;
    int rank_;
  };

 private:
  int count_;
  std::barrier<> barrier_;
  std::vector<std::span<const float>> sent_;
  std::vector<std::span<const std::int64_t>> sent_counts_;
  std::vector<std::span<const std::int64_t>> sent_numbers_;
};

// The mean over the ranks of loss and gradients, each rank on its part of the batch.
struct Result {
  double loss = 0;
  std::vector<double> gradients;
};

Result train(const config::Model& config, const Example& example, int ranks, std::int64_t batch) {
  Ranks group(ranks);
  const std::int64_t part = batch / ranks;
  const auto tokens = static_cast<std::size_t>(part * config.context);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks::Exchange exchange(group, rank);
      const auto model = make_model(config, part, 1, ranks > 1 ? &exchange : nullptr);
      scatter_parameters(*model);
      const auto first = static_cast<std::size_t>(rank) * tokens;
      const Batch own{part, std::span(example.inputs).subspan(first, tokens),
                      std::span(example.targets).subspan(first, tokens)};
      // Buffers of a step before must do no harm.
      model->forward_backward(own);
      std::fill(model->gradients().begin(), model->gradients().end(), 0.0F);
      Result& result = results[static_cast<std::size_t>(rank)];
      result.loss = static_cast<double>(model->forward_backward(own));
      result.gradients.assign(model->gradients().begin(), model->gradients().end());
    });
  }
  for (auto& thread : threads) thread.join();
  Result mean;
  mean.gradients.resize(results[0].gradients.size());
  for (const Result& result : results) {
    mean.loss += result.loss / ranks;
    for (std::size_t i = 0; i < mean.gradients.size(); ++i) {
      mean.gradients[i] += result.gradients[i] / ranks;
    }
  }
  return mean;
}

TEST(ExpertParallel, RanksTogetherDoWhatOneDoes) {
  config::Model config = small_config("moe");
  config.balance_loss = 0;  // of each rank's own rows, so not the same
  const Example example(config, 12);
  for (const bool recompute : {false, true}) {
    config.recompute = recompute;
    const Result one = train(config, example, 1, 12);
    double scale = 0;
    for (const double gradient : one.gradients) scale = std::max(scale, std::abs(gradient));
    // Also more ranks than experts.
    for (const int ranks : {2, 3, 6}) {
      const Result several = train(config, example, ranks, 12);
      EXPECT_NEAR(several.loss, one.loss, 1e-5 * one.loss);
      for (std::size_t i = 0; i < one.gradients.size(); ++i) {
        ASSERT_NEAR(several.gradients[i], one.gradients[i], 2e-6 * scale) << ranks << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace archipelago::model
