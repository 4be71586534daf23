#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "model/model.h"

namespace archipelago::evaluate {

// How a model does on a validation split.
struct Score {
  double loss = 0;                 // nats a token, or an image
  std::optional<double> accuracy;  // images: share that was classified right
  std::int64_t samples = 0;        // tokens or images that it is a mean over
};

// Throws Error(bad_data) naming `path` unless `dataset` is of the model's kind and sizes and has no
// token or class that the model does not know.
void require_fit(const config::Model& model, const data::Dataset& dataset, const std::string& path);

// `batch` sequences or images at a time, at most what the model was made for. Of the split only the
// first `tokens` tokens, or so many positions' images (`context` each); 0: all. An empty split has
// loss 0.
Score validation_score(model::Model& model, const data::Dataset& dataset, std::int64_t context,
                       std::int64_t batch, std::int64_t tokens);

}  // namespace archipelago::evaluate
