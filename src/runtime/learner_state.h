#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/dataset.h"
#include "kernels/kernels.h"
#include "link/message.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "runtime/learner_memory.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// One rank's share of a learner: model, inner optimizer, place in the data, and the counters of
// each fragment. Knows nothing of other ranks; every rank of an island does the same calls.
class LearnerState {
 public:
  // `rank` of `ranks` of the island that plays `learner`: it trains on its share of each batch.
  // `dataset` is the run's; a learner with a data file of its own reads that here. The model is
  // made here; its parameters are undefined until begin() and receive(). `exchange`: that of the
  // island's ranks, null where there is one. Throws Error(bad_data).
  LearnerState(const Setup& setup, const data::Dataset& dataset,
               std::shared_ptr<kernels::Kernels> kernels, int learner, int rank, int ranks,
               model::ExpertExchange* exchange = nullptr);

  // Starts a life of the learner: no fragment is held, data goes on where `tokens` says, the
  // moments are taken out of `saved`, which is of this model; zeros without, or where they are of
  // another kind of optimizer.
  void begin(int incarnation, std::int64_t tokens, checkpoint::Learner* saved);

  // Trains from now on the shards of this lease alone, of `shards` in all: on those it trained on
  // already from where it is, on the others from where the lease says.
  void take_lease(int shards, const std::vector<data::ShardCursor>& leased);

  // The same for a set of learners that never changes: its own part of the data, from where its
  // tokens say.
  void take_fixed_share();

  // Forgets an inner step that was given up half-way, and trains from now on at these places of the
  // data, wherever it has been.
  void restart(int shards, const std::vector<data::ShardCursor>& leased);

  // Overwrites a fragment by the global one; the moments stay.
  void receive(int fragment, std::int32_t version, std::span<const float> values);

  // The same, encoded as Wire::whole() says. Throws Error(internal) when the data's length is not
  // the fragment's.
  void receive_encoded(int fragment, std::int32_t version, std::span<const std::byte> data);

  bool holds_all() const;
  bool can_step() const { return holds_all() && !leased_.empty(); }

  // Tokens trained by all learners so far, as the syncer last said: where the schedule stands.
  void set_run_tokens(std::int64_t tokens);

  struct Step {
    float loss = 0;                 // nats a target
    std::optional<float> accuracy;  // images: share of the batch that was classified right
    double learning_rate = 0;
    double gradient_norm = 0;  // of the whole batch, before clipping
  };

  // Whether the last step's loss was finite and below loss_limit(), and its gradients finite.
  bool is_sound() const { return has_sound_loss_ && std::isfinite(last_step_.gradient_norm); }

  // The last inner step of this life; all 0 before its first.
  const Step& last_step() const { return last_step_; }

  // What a report says of the learner itself: who it is, its counts, its last step, the versions
  // that it holds.
  void describe(link::Report& report) const;

  // One inner step; `average` replaces each number by its mean over the island: first gradients(),
  // where these are, then a few on the host.
  void step(const std::function<void(std::span<float>)>& average);

  // The gradients of the step under way, flat, and who is told of them as they become final
  // (model::Model::watch_gradients).
  std::span<float> gradients() { return model_->gradients(); }
  void watch_gradients(model::GradientsReady ready) { gradients_ready_ = std::move(ready); }
  std::span<const float> parameters() const { return model_->parameters(); }

  // Takes the rank's copy of a fragment, to be had from taken_fragment() once it is in the host's
  // memory (null until then); and what is said of it. One at a time. A GPU encodes it where
  // differences are sent, if this is the island's first rank.
  void take_fragment(int fragment);
  std::shared_ptr<const kernels::HostArray> taken_fragment() { return mover_->taken(); }
  // Whether who sends differences has to work them out, and so needs what the learner received.
  bool needs_base() const { return setup_.wire.differences() && kernels_->on_host(); }
  // The values at once, on a processor.
  void copy_fragment(int fragment, std::span<float> values) const;
  link::FragmentHeader header(int fragment, std::int64_t round) const;
  bool has_news(int fragment) const { return steps_since_[at(fragment)] > 0; }

  // Everything of a checkpoint but the large arrays, and these where they are or, where that is a
  // GPU, copied into `room`.
  checkpoint::Learner checkpoint() const;
  checkpoint::LearnerArrays arrays(std::vector<float>& room);

  int learner() const { return learner_; }
  int incarnation() const { return incarnation_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t tokens() const { return tokens_; }
  const std::vector<std::int32_t>& held() const { return held_; }

  // Bytes in the host's memory by what they are for.
  LearnerMemory memory() const;

 private:
  static std::size_t at(int fragment) { return static_cast<std::size_t>(fragment); }
  void put(int fragment, std::int32_t version, fragment::Encoding encoding,
           std::span<const std::byte> data);
  void choose_batch();
  // One of train.accumulate parts of the rank's share of the batch.
  model::Batch load_part(std::int64_t part);

  const Setup& setup_;
  int learner_;
  config::RunConfig config_;  // the learner's
  std::unique_ptr<data::Dataset> own_data_;
  const data::Dataset& dataset_;
  std::unique_ptr<data::Batches> batches_;  // with the first lease
  int shards_ = 0;                          // that the data is dealt out to
  std::vector<data::ShardCursor> leased_;
  std::vector<data::ShardCursor> batch_;  // of the present step
  std::int64_t batch_tokens_;
  std::int64_t part_batch_;      // sequences of a part
  std::int64_t first_sequence_;  // of this rank, in a batch
  std::shared_ptr<kernels::Kernels> kernels_;
  std::unique_ptr<kernels::Mover> mover_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::Optimizer> optimizer_;
  model::GradientsReady gradients_ready_;

  int incarnation_ = -1;
  std::int64_t steps_ = 0;
  bool has_sound_loss_ = true;  // moments begin anew where it changes
  Step last_step_;
  std::int64_t tokens_ = 0;
  std::int64_t run_tokens_ = 0;
  std::int64_t steps_since_run_tokens_ = 0;
  std::vector<std::int32_t> held_;
  std::vector<std::int64_t> steps_since_;
  std::vector<double> highest_loss_since_;  // NaN if one was
  std::vector<std::int64_t> tokens_since_;
};

}  // namespace archipelago::runtime
