#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.h"
#include "evaluate/score.h"
#include "runtime/setup.h"

namespace archipelago::runtime {

// How the model with these flat parameters does on the validation split (its first
// config.train.validation tokens, or so many positions' images; 0: all).
evaluate::Score validation_score(const Setup& setup, const data::Dataset& dataset,
                                 std::span<const float> parameters, int threads);

// Bytes that it takes besides the parameters: a model of its own.
std::int64_t validation_bytes(const Setup& setup);

}  // namespace archipelago::runtime
