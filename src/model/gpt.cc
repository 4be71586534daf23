#include "model/gpt.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace archipelago::model {
namespace {

// Rows of logits at a time: about 4 MiB of them, but enough rows for an efficient product.
std::int64_t head_rows(std::int64_t vocabulary, std::int64_t rows) {
  constexpr std::int64_t kElements = 1 << 20;
  return std::min(rows, std::max<std::int64_t>(kElements / vocabulary, 128));
}

}  // namespace

GptPlan::GptPlan(const config::Model& config, ExpertExchange* exchange)
    : token_table(plan.add("wte.weight", {config.vocabulary, config.width}, TensorRole::table)),
      position_table(plan.add("wpe.weight", {config.context, config.width}, TensorRole::table)),
      trunk(plan, config, config.context, true, exchange) {}

Gpt::Gpt(const config::Model& config, std::int64_t max_batch, int threads, ExpertExchange* exchange)
    : config_(config),
      kernels_(kernels::make_cpu_kernels(threads)),
      parts_(config, exchange),
      storage_(*kernels_, parts_.plan, max_batch * config.context),
      head_rows_(head_rows(config.vocabulary, storage_.rows())),
      logits_(*kernels_, head_rows_ * config.vocabulary),
      losses_(*kernels_, head_rows_) {}

void Gpt::initialize(std::uint64_t seed) {
  initialize_parameters(tensors(), static_cast<int>(config_.layers), seed, parameters());
}

float Gpt::forward_backward(const Batch& batch) {
  check(batch);
  const float mean_loss = head(batch, forward(batch), true);
  const float* d_embedded =
      parts_.trunk.backward(*kernels_, storage_, batch.batch, gradients_ready());
  kernels_->embedding_backward(storage_.gradient(parts_.token_table),
                               storage_.gradient(parts_.position_table), batch.inputs.data(),
                               d_embedded, batch.batch, config_.context, config_.width);
  return mean_loss;
}

float Gpt::loss(const Batch& batch) {
  check(batch);
  return head(batch, forward(batch), false);
}

void Gpt::next_logits(std::span<const std::int32_t> tokens, std::span<float> logits) {
  if (tokens.empty() || std::cmp_greater(tokens.size(), config_.context)) {
    throw Error(ExitCode::internal, "next_logits needs 1 to " + std::to_string(config_.context) +
                                        " tokens, not " + std::to_string(tokens.size()));
  }
  // Attention looks back only, so what pads the sequence changes nothing before it.
  std::vector<std::int32_t> padded(tokens.begin(), tokens.end());
  padded.resize(static_cast<std::size_t>(config_.context));
  const std::vector<std::int32_t> no_targets(padded.size(), -1);
  const Batch batch{1, padded, no_targets};
  check(batch);
  const std::int64_t C = config_.width;
  const auto last = static_cast<std::int64_t>(tokens.size()) - 1;
  const float* normed = forward(batch) + last * C;
  kernels_->matmul(logits_.data(), normed, storage_.value(parts_.token_table),
                   kernels::Transpose::right, false, 1, config_.vocabulary, C);
  std::copy_n(logits_.data(), config_.vocabulary, logits.begin());
}

void Gpt::check(const Batch& batch) const {
  const auto wanted = static_cast<std::size_t>(rows(batch));
  if (batch.batch < 1 || rows(batch) > storage_.rows() || batch.inputs.size() != wanted ||
      batch.targets.size() != wanted) {
    throw Error(ExitCode::internal, "a batch of " + std::to_string(batch.batch) +
                                        " sequences with " + std::to_string(batch.inputs.size()) +
                                        " tokens does not fit a model made for " +
                                        std::to_string(storage_.rows() / config_.context) +
                                        " sequences of " + std::to_string(config_.context));
  }
  const auto outside = [&](std::int32_t token, std::int32_t least) {
    return token < least || token >= config_.vocabulary;
  };
  for (std::size_t i = 0; i < wanted; ++i) {
    if (outside(batch.inputs[i], 0) || outside(batch.targets[i], -1)) {
      throw Error(
          ExitCode::bad_data,
          "token " +
              std::to_string(outside(batch.inputs[i], 0) ? batch.inputs[i] : batch.targets[i]) +
              " is not in the model's vocabulary of " + std::to_string(config_.vocabulary) +
              "; use the data file that the model was made for");
    }
  }
}

float* Gpt::forward(const Batch& batch) {
  kernels_->embedding_forward(
      parts_.trunk.input(storage_), batch.inputs.data(), storage_.value(parts_.token_table),
      storage_.value(parts_.position_table), batch.batch, config_.context, config_.width);
  return parts_.trunk.forward(*kernels_, storage_, batch.batch);
}

float Gpt::head(const Batch& batch, float* normed, bool gradients) {
  const std::int64_t C = config_.width;
  const std::int64_t V = config_.vocabulary;
  const auto counted = std::count_if(batch.targets.begin(), batch.targets.end(),
                                     [](std::int32_t target) { return target >= 0; });
  if (counted == 0) {
    if (gradients) std::fill_n(normed, rows(batch) * C, 0.0F);
    return 0;
  }
  const float scale = gradients ? 1.0F / static_cast<float>(counted) : 0.0F;
  const float* table = storage_.value(parts_.token_table);
  double sum = 0;
  for (std::int64_t first = 0; first < rows(batch); first += head_rows_) {
    const std::int64_t count = std::min(head_rows_, rows(batch) - first);
    float* block = normed + first * C;
    kernels_->matmul(logits_.data(), block, table, kernels::Transpose::right, false, count, V, C);
    kernels_->cross_entropy(losses_.data(), logits_.data(), batch.targets.data() + first, scale,
                            count, V);
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(losses_.data()[i]);
    if (!gradients) continue;
    kernels_->matmul(storage_.gradient(parts_.token_table), logits_.data(), block,
                     kernels::Transpose::left, true, V, C, count);
    kernels_->matmul(block, logits_.data(), table, kernels::Transpose::neither, false, count, C, V);
  }
  return static_cast<float>(sum / static_cast<double>(counted));
}

std::int64_t Gpt::activation_bytes_of(const config::Model& config, std::int64_t batch) {
  const std::int64_t R = batch * config.context;
  const std::int64_t head = head_rows(config.vocabulary, R) * (config.vocabulary + 1);
  return static_cast<std::int64_t>(sizeof(float)) * (R * GptPlan(config).plan.per_row() + head);
}

}  // namespace archipelago::model
