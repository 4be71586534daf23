#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/dataset.h"
#include "fragment/partition.h"
#include "model/model.h"
#include "sync/merge.h"

namespace archipelago::runtime {

// What every rank derives alike from the options and the data.
struct Setup {
  config::RunConfig config;  // with model.vocabulary filled in
  std::vector<model::TensorInfo> tensors;
  std::vector<fragment::Fragment> fragments;          // (P)
  std::vector<std::vector<sync::MergePiece>> pieces;  // (P) how each fragment's tensors are merged
  std::vector<int> fragment_of_tensor;
  std::int64_t parameters = 0;        // elements of all tensors
  std::int64_t largest_fragment = 0;  // elements

  std::int64_t step_tokens = 0;  // of one inner step of every learner together

  int fragment_count() const { return static_cast<int>(fragments.size()); }
  std::int64_t batch_tokens() const { return config.train.batch * config.model.context; }
};

// Which part of its data file a learner trains on: the learners of one file share it.
struct Shard {
  int index;
  int count;
};
Shard shard_of(const config::RunConfig& config, int learner);

// What a learner with the configuration `own` trains on, one of `shards` that share the data.
// Throws Error(bad_data) where there is too little for all of them.
std::unique_ptr<data::Batches> training_batches(const data::Dataset& dataset,
                                                const config::RunConfig& own, int shards);

// The model with what its options leave to the data filled in. `data_path` is for messages. Throws
// Error(configuration) or Error(bad_data) when options and data do not fit together.
config::Model fit_model(config::Model model, const data::Dataset& dataset,
                        const std::string& data_path);

// `config.model` as fit_model gives it. Throws Error(configuration) for a model that can't be.
Setup make_setup(const config::RunConfig& config);

}  // namespace archipelago::runtime
