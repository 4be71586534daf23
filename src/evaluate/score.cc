#include "evaluate/score.h"

#include <algorithm>

#include "core/error.h"
#include "data/image_dataset.h"
#include "data/token_dataset.h"
#include "evaluate/text_loss.h"

namespace archipelago::evaluate {
namespace {

Score score_text(model::Model& model, const data::TokenDataset& dataset, std::int64_t context,
                 std::int64_t batch, std::int64_t most) {
  auto tokens = dataset.tokens(data::Split::validation);
  if (most > 0) tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(most) + 1));
  const auto predicted = std::max<std::int64_t>(static_cast<std::int64_t>(tokens.size()) - 1, 0);
  return {text_loss(model, tokens, context, batch), std::nullopt, predicted};
}

Score score_images(model::Model& model, const data::ImageDataset& dataset, std::int64_t batch,
                   std::int64_t most) {
  std::int64_t images = dataset.count(data::Split::validation);
  if (most > 0) images = std::min(images, most);
  const auto numbers = static_cast<std::size_t>(dataset.numbers());
  std::vector<float> pixels(static_cast<std::size_t>(batch) * numbers);
  std::vector<std::int32_t> classes(static_cast<std::size_t>(batch));
  double loss = 0;
  double right = 0;
  for (std::int64_t first = 0; first < images; first += batch) {
    const std::int64_t count = std::min(batch, images - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      dataset.copy(data::Split::validation, first + i, {},
                   std::span(pixels).subspan(at * numbers, numbers));
      classes[at] = dataset.label(data::Split::validation, first + i);
    }
    const auto size = static_cast<std::size_t>(count);
    const float mean = model.loss({.batch = count,
                                   .inputs = {},
                                   .targets = std::span(classes).first(size),
                                   .images = std::span(pixels).first(size * numbers)});
    loss += static_cast<double>(mean) * static_cast<double>(count);
    right += model.accuracy().value_or(0) * static_cast<double>(count);
  }
  const auto share = 1.0 / static_cast<double>(std::max<std::int64_t>(images, 1));
  return {loss * share, right * share, images};
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ExitCode::bad_data, path + why + "; give the data that the model was trained on");
}

}  // namespace

void require_fit(const config::Model& model, const data::Dataset& dataset,
                 const std::string& path) {
  const auto* const images = dynamic_cast<const data::ImageDataset*>(&dataset);
  if (model::is_image_model(model) != (images != nullptr)) {
    refuse(path, (images != nullptr ? " holds images but the model is a "
                                    : " holds text but the model is a ") +
                     model.kind);
  }
  if (images != nullptr &&
      (images->side() != model.image || images->channels() != model.image_channels)) {
    refuse(path, " has images of " + std::to_string(images->side()) + " pixels and " +
                     std::to_string(images->channels()) + " channels but the model takes " +
                     std::to_string(model.image) + " and " + std::to_string(model.image_channels));
  }
  if (dataset.vocabulary() > model.vocabulary) {
    refuse(path, " has a vocabulary of " + std::to_string(dataset.vocabulary()) +
                     " but the model one of " + std::to_string(model.vocabulary));
  }
}

Score validation_score(model::Model& model, const data::Dataset& dataset, std::int64_t context,
                       std::int64_t batch, std::int64_t tokens) {
  if (const auto* const images = dynamic_cast<const data::ImageDataset*>(&dataset)) {
    return score_images(model, *images, batch,
                        tokens == 0 ? 0 : std::max<std::int64_t>(tokens / context, 1));
  }
  return score_text(model, dynamic_cast<const data::TokenDataset&>(dataset), context, batch,
                    tokens);
}

}  // namespace archipelago::evaluate
