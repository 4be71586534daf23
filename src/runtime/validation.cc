#include "runtime/validation.h"

#include <algorithm>

namespace archipelago::runtime {

evaluate::Score validation_score(const Setup& setup, const data::Dataset& dataset,
                                 std::span<const float> parameters, int threads) {
  constexpr std::int64_t kBatchTokens = 1024;
  const std::int64_t context = setup.config.model.context;
  const std::int64_t batch = std::max<std::int64_t>(kBatchTokens / context, 1);
  const auto model = model::make_model(setup.config.model, batch, threads);
  std::copy(parameters.begin(), parameters.end(), model->parameters().begin());
  return evaluate::validation_score(*model, dataset, context, batch, setup.config.train.validation);
}

}  // namespace archipelago::runtime
