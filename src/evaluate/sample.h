#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "config/run_config.h"
#include "core/random.h"
#include "model/model.h"

namespace archipelago::evaluate {

struct Sampling {
  double temperature = 1;       // logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;       // only the likeliest k tokens; 0: all
  std::int64_t vocabulary = 0;  // only ids below it, at most the model's
};

// A token drawn from softmax(logits / temperature) over the top k. Of equal logits the smaller id
// counts as the likelier.
std::int32_t draw_token(std::span<const float> logits, const Sampling& sampling, Random& random);

// Appends `count` tokens to `tokens` (at least one), each drawn given the last of those before it
// that fit into the context of `model`, which `config` describes. `each` is called with every new
// one. Throws Error(bad_data) where the model's logits are not finite.
void continue_tokens(model::Model& model, const config::Model& config,
                     std::vector<std::int32_t>& tokens, std::int64_t count,
                     const Sampling& sampling, Random& random,
                     const std::function<void(std::int32_t)>& each);

}  // namespace archipelago::evaluate
