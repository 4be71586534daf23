#include "model/images.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"

namespace archipelago::model {

std::int64_t image_numbers(const config::Model& config) {
  return config.image_channels * config.image * config.image;
}

void check_image_batch(const config::Model& config, const Batch& batch, std::int64_t max_batch) {
  if (batch.images.empty()) {
    throw Error(ExitCode::configuration, "model.kind " + config.kind +
                                             " needs images, and the data file holds text; use gpt "
                                             "or moe");
  }
  const std::int64_t numbers = image_numbers(config);
  if (batch.batch < 1 || batch.batch > max_batch ||
      batch.images.size() != static_cast<std::size_t>(batch.batch * numbers) ||
      batch.targets.size() != static_cast<std::size_t>(batch.batch)) {
    throw Error(ExitCode::internal, "a batch of " + std::to_string(batch.batch) + " images with " +
                                        std::to_string(batch.images.size()) +
                                        " numbers does not fit a model made for " +
                                        std::to_string(max_batch) + " images of " +
                                        std::to_string(numbers));
  }
  for (const std::int32_t target : batch.targets) {
    if (target < -1 || target >= config.vocabulary) {
      throw Error(ExitCode::bad_data, "class " + std::to_string(target) +
                                          " is not one of the model's " +
                                          std::to_string(config.vocabulary) +
                                          "; use the data file that the model was made for");
    }
  }
}

ClassScore score_classes(kernels::Kernels& kernels, float* logits, float* losses,
                         const std::int32_t* device_targets, std::span<const std::int32_t> targets,
                         std::int64_t classes, bool gradients) {
  const auto batch = static_cast<std::int64_t>(targets.size());
  const auto on_host = [&](const float* numbers, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    kernels.copy_out(values.data(), numbers, count * static_cast<std::int64_t>(sizeof(float)));
    return values;
  };
  const std::vector<float> scores = on_host(logits, batch * classes);
  std::int64_t counted = 0;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < batch; ++i) {
    if (targets[i] < 0) continue;
    const float* const row = scores.data() + i * classes;
    ++counted;
    right += std::max_element(row, row + classes) - row == targets[i] ? 1 : 0;
  }
  const float share = counted == 0 ? 1.0F : 1.0F / static_cast<float>(counted);
  kernels.cross_entropy(losses, logits, device_targets, gradients ? share : 0.0F, batch, classes);
  double sum = 0;
  for (const float loss : on_host(losses, batch)) sum += static_cast<double>(loss);
  return {static_cast<float>(sum * static_cast<double>(share)),
          static_cast<double>(right) * static_cast<double>(share)};
}

}  // namespace archipelago::model
