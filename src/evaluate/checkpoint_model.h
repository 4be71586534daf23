#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/run_config.h"
#include "model/model.h"

namespace archipelago::evaluate {

// A model with the parameters of a checkpoint.
struct CheckpointModel {
  config::RunConfig config;  // the run's, out of the file
  std::unique_ptr<model::Model> model;
  std::int64_t batch = 0;  // sequences at a time that it was made for
};

// Of a global or a learner checkpoint, for about `batch_tokens` tokens at a time. Throws
// Error(bad_data) naming the file where it can't be used or does not hold the model that its own
// configuration describes.
CheckpointModel load_model(const std::filesystem::path& file, std::int64_t batch_tokens,
                           int threads);

}  // namespace archipelago::evaluate
