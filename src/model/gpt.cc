#include "model/gpt.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"

namespace archipelago::model {
namespace {

// Rows of logits at a time: no more than the device wants, but enough for an efficient product;
// about equal parts of all of them, as a small last one would be slow.
std::int64_t head_rows(std::int64_t vocabulary, std::int64_t rows, std::int64_t logits) {
  constexpr std::int64_t kTile = 128;
  const std::int64_t most = std::max<std::int64_t>(logits / vocabulary / kTile, 1) * kTile;
  const std::int64_t parts = (rows + most - 1) / most;
  const std::int64_t tiles = (rows + parts * kTile - 1) / (parts * kTile);
  return std::min(rows, tiles * kTile);
}

std::int64_t counted(std::span<const std::int32_t> targets) {
  return std::ranges::count_if(targets, [](std::int32_t target) { return target >= 0; });
}

// What the mean of their losses is divided by.
double divisor(std::span<const std::int32_t> targets) {
  return static_cast<double>(std::max<std::int64_t>(counted(targets), 1));
}

// Sequences that go through the model together: a mixture's balancing losses are those of all.
std::int64_t slice_sequences(const config::Model& config, std::int64_t batch, std::int64_t rows) {
  if (config.kind == "moe") return batch;
  return std::clamp<std::int64_t>(rows / config.context, 1, batch);
}

}  // namespace

GptPlan::GptPlan(const config::Model& config, Plan empty, ExpertExchange* exchange)
    : plan(std::move(empty)),
      token_table(plan.add("wte.weight", {config.vocabulary, config.width}, TensorRole::table)),
      position_table(plan.add("wpe.weight", {config.context, config.width}, TensorRole::table)),
      trunk(plan, config, config.context, true, exchange) {}

Gpt::Gpt(const config::Model& config, std::int64_t max_batch,
         std::shared_ptr<kernels::Kernels> kernels, ExpertExchange* exchange)
    : Network(config, kernels,
              slice_sequences(config, max_batch, kernels->rows_at_once()) * config.context,
              exchange),
      max_batch_(max_batch),
      head_rows_(head_rows(config.vocabulary, storage_.rows(), kernels_->logits_at_once())),
      logits_(*kernels_, head_rows_ * config.vocabulary),
      losses_(*kernels_, storage_.rows()),
      host_losses_(static_cast<std::size_t>(storage_.rows())),
      inputs_(*kernels_, storage_.rows()),
      targets_(*kernels_, storage_.rows()) {}

template <class Body>
void Gpt::for_slices(const Batch& batch, const Body& body) const {
  const std::int64_t most = storage_.rows() / config_.context;
  for (std::int64_t first = 0; first < batch.batch; first += most) {
    const std::int64_t count = std::min(most, batch.batch - first);
    const auto begin = static_cast<std::size_t>(first * config_.context);
    const auto size = static_cast<std::size_t>(count * config_.context);
    body(Batch{count, batch.inputs.subspan(begin, size), batch.targets.subspan(begin, size)},
         first + count == batch.batch);
  }
}

// Gradients are final in the last slice only.
float Gpt::forward_backward(const Batch& batch) {
  static const GradientsReady kNobody;
  check(batch);
  const double targets = divisor(batch.targets);
  double sum = 0;
  for_slices(batch, [&](const Batch& slice, bool last) {
    head(slice, forward(slice), 1.0F / static_cast<float>(targets));
    const float* d_embedded =
        parts_.trunk.backward(*kernels_, storage_, slice.batch, last ? gradients_ready() : kNobody);
    kernels_->embedding_backward(storage_.gradient(parts_.token_table),
                                 storage_.gradient(parts_.position_table), inputs_.data(),
                                 d_embedded, slice.batch, config_.context, config_.width);
    // Last: whoever waits for a GPU's losses has given it all of its work.
    sum += sum_of_losses(slice);
  });
  return static_cast<float>(sum / targets);
}

float Gpt::loss(const Batch& batch) {
  check(batch);
  double sum = 0;
  for_slices(batch, [&](const Batch& slice, bool) {
    head(slice, forward(slice), 0);
    sum += sum_of_losses(slice);
  });
  return static_cast<float>(sum / divisor(batch.targets));
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
  logits_.copy_out(logits);
}

void Gpt::check(const Batch& batch) const {
  const auto wanted = static_cast<std::size_t>(rows(batch));
  if (batch.batch < 1 || batch.batch > max_batch_ || batch.inputs.size() != wanted ||
      batch.targets.size() != wanted) {
    throw Error(ExitCode::internal, "a batch of " + std::to_string(batch.batch) +
                                        " sequences with " + std::to_string(batch.inputs.size()) +
                                        " tokens does not fit a model made for " +
                                        std::to_string(max_batch_) + " sequences of " +
                                        std::to_string(config_.context));
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
  kernels_->round_parameters(storage_.parameters());
  inputs_.copy_in(batch.inputs);
  targets_.copy_in(batch.targets);
  kernels_->embedding_forward(
      parts_.trunk.input(storage_), inputs_.data(), storage_.value(parts_.token_table),
      storage_.value(parts_.position_table), batch.batch, config_.context, config_.width);
  return parts_.trunk.forward(*kernels_, storage_, batch.batch);
}

void Gpt::head(const Batch& batch, float* normed, float gradient_scale) {
  const std::int64_t C = config_.width;
  const std::int64_t V = config_.vocabulary;
  if (counted(batch.targets) == 0) {
    if (gradient_scale != 0) kernels_->clear(normed, rows(batch) * C);
    return;
  }
  const float* table = storage_.value(parts_.token_table);
  // Without gradients nothing but the losses is made of them, which then keep all bits.
  const kernels::Numbers logits =
      gradient_scale != 0 ? kernels_->compact(logits_.data()) : kernels::Numbers(logits_.data());
  for (std::int64_t first = 0; first < rows(batch); first += head_rows_) {
    const std::int64_t count = std::min(head_rows_, rows(batch) - first);
    float* block = normed + first * C;
    kernels_->matmul(logits, block, table, kernels::Transpose::right, false, count, V, C);
    kernels_->cross_entropy(losses_.data() + first, logits, targets_.data() + first, gradient_scale,
                            count, V);
    if (gradient_scale == 0) continue;
    kernels_->matmul(storage_.gradient(parts_.token_table), logits, block, kernels::Transpose::left,
                     true, V, C, count);
    kernels_->matmul(block, logits, table, kernels::Transpose::neither, false, count, C, V);
  }
}

double Gpt::sum_of_losses(const Batch& batch) {
  if (counted(batch.targets) == 0) return 0;
  const auto losses = std::span(host_losses_).first(static_cast<std::size_t>(rows(batch)));
  losses_.copy_out(losses);
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

std::int64_t Gpt::activation_bytes_of(const config::Model& config, std::int64_t batch,
                                      std::int64_t rows_at_once) {
  const std::int64_t R = slice_sequences(config, batch, rows_at_once) * config.context;
  const std::int64_t head =
      head_rows(config.vocabulary, R, kernels::kHostLogitsAtOnce) * config.vocabulary;
  // Also each row's loss, here and on the device, its token and its target.
  constexpr std::int64_t kHeadPerRow = 4;
  return static_cast<std::int64_t>(sizeof(float)) *
         (R * (GptPlan(config).plan.per_row() + kHeadPerRow) + head);
}

}  // namespace archipelago::model
