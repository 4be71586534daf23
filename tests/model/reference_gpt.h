#pragma once

#include <span>

#include "model/model.h"
#include "reference.h"

namespace archipelago::reference {

// Mean loss of the GPT-2-style decoder that `tensors` describe, in double, from the flat
// `parameters`.
double gpt_loss(const config::Model& config, std::span<const model::TensorInfo> tensors,
                const Array& parameters, const model::Batch& batch);

}  // namespace archipelago::reference
