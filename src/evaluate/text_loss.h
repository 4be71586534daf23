#pragma once

#include <cstdint>
#include <span>

#include "model/model.h"

namespace archipelago::evaluate {

// Mean loss in nats a token of predicting tokens[1], tokens[2] ... from what stands before each in
// its window of `context` tokens; windows follow one another, the last may be shorter. Runs `batch`
// windows at a time, at most what the model was made for, without gradients. Needs two tokens; of
// fewer the mean is 0.
double text_loss(model::Model& model, std::span<const std::uint16_t> tokens, std::int64_t context,
                 std::int64_t batch);

}  // namespace archipelago::evaluate
