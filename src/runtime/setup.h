#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
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

  int fragment_count() const { return static_cast<int>(fragments.size()); }
  std::int64_t batch_tokens() const { return config.train.batch * config.model.context; }
};

// `data_vocabulary`: of the token file. Throws Error(configuration) when options and data do not
// fit together.
Setup make_setup(const config::RunConfig& config, std::int64_t data_vocabulary);

}  // namespace archipelago::runtime
