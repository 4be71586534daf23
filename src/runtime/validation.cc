#include "runtime/validation.h"

#include <algorithm>

#include "evaluate/text_loss.h"

namespace archipelago::runtime {

double validation_loss(const Setup& setup, const data::TokenDataset& dataset,
                       std::span<const float> parameters, int threads) {
  constexpr std::int64_t kBatch = 8;
  auto tokens = dataset.tokens(data::Split::validation);
  const std::int64_t most = setup.config.train.validation;
  if (most > 0) tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(most) + 1));
  const auto model = model::make_model(setup.config.model, kBatch, threads);
  std::copy(parameters.begin(), parameters.end(), model->parameters().begin());
  return evaluate::text_loss(*model, tokens, setup.config.model.context, kBatch);
}

}  // namespace archipelago::runtime
