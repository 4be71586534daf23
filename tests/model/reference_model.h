#pragma once

#include <span>

#include "model/model.h"
#include "reference.h"

namespace archipelago::reference {

inline Array to_double(std::span<const float> values) { return {values.begin(), values.end()}; }

// Of the network that `config` and `tensors` describe, in double, from the flat `parameters`: the
// mean loss, and what the gradients belong to, that with the router's losses.
struct Losses {
  double loss;
  double objective;
};
Losses model_losses(const config::Model& config, std::span<const model::TensorInfo> tensors,
                    const Array& parameters, const model::Batch& batch);

}  // namespace archipelago::reference
