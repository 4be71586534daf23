#include "runtime/validation.h"

#include <algorithm>

#include "model/size.h"

namespace archipelago::runtime {
namespace {

// Sequences or images at a time.
std::int64_t batch_of(const Setup& setup) {
  constexpr std::int64_t kBatchTokens = 1024;
  return std::max<std::int64_t>(kBatchTokens / setup.config.model.context, 1);
}

}  // namespace

evaluate::Score validation_score(const Setup& setup, const data::Dataset& dataset,
                                 std::span<const float> parameters, int threads) {
  const std::int64_t batch = batch_of(setup);
  const auto model = model::make_model(setup.config.model, batch, threads);
  std::copy(parameters.begin(), parameters.end(), model->parameters().begin());
  return evaluate::validation_score(*model, dataset, setup.config.model.context, batch,
                                    setup.config.train.validation);
}

std::int64_t validation_bytes(const Setup& setup) {
  // Gradients are not made, but have their room.
  return 2 * setup.parameters * static_cast<std::int64_t>(sizeof(float)) +
         model::activation_bytes(setup.config.model, batch_of(setup));
}

}  // namespace archipelago::runtime
