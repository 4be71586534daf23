#pragma once

#include <span>

#include "model/model.h"
#include "reference.h"

namespace archipelago::reference {

// Of the decoder (kind gpt or moe) that `tensors` describe, in double, from the flat `parameters`:
// the mean loss, and what the gradients belong to, that with the router's losses.
struct GptLosses {
  double loss;
  double objective;
};
GptLosses gpt_losses(const config::Model& config, std::span<const model::TensorInfo> tensors,
                     const Array& parameters, const model::Batch& batch);

}  // namespace archipelago::reference
