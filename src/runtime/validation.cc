#include "runtime/validation.h"

#include <algorithm>
#include <vector>

namespace archipelago::runtime {

double validation_loss(const Setup& setup, const data::TokenDataset& dataset,
                       std::span<const float> parameters, int threads) {
  constexpr std::int64_t kBatch = 8;
  const std::int64_t context = setup.config.model.context;
  const auto tokens = dataset.tokens(data::Split::validation);
  std::int64_t windows = (static_cast<std::int64_t>(tokens.size()) - 1) / context;
  if (setup.config.train.validation > 0) {
    windows = std::min(windows, std::max<std::int64_t>(1, setup.config.train.validation / context));
  }
  const auto model = model::make_model(setup.config.model, kBatch, threads);
  std::copy(parameters.begin(), parameters.end(), model->parameters().begin());

  std::vector<std::int32_t> inputs(static_cast<std::size_t>(kBatch * context));
  std::vector<std::int32_t> targets(inputs.size());
  double sum = 0;
  for (std::int64_t first = 0; first < windows; first += kBatch) {
    const std::int64_t count = std::min(kBatch, windows - first);
    const auto filled = static_cast<std::size_t>(count * context);
    const auto start = tokens.begin() + first * context;
    std::copy_n(start, filled, inputs.begin());
    std::copy_n(start + 1, filled, targets.begin());
    const model::Batch batch{count, std::span(inputs).first(filled),
                             std::span(targets).first(filled)};
    sum += static_cast<double>(model->loss(batch)) * static_cast<double>(count);
  }
  return windows > 0 ? sum / static_cast<double>(windows) : 0;
}

}  // namespace archipelago::runtime
