#pragma once

#include <span>

#include "data/token_dataset.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// Mean loss, nats a token, of the model with these flat parameters over the validation split (its
// first config.train.validation tokens; 0: all), in windows of the model's context.
double validation_loss(const Setup& setup, const data::TokenDataset& dataset,
                       std::span<const float> parameters, int threads);

}  // namespace archipelago::runtime
