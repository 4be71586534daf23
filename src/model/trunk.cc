#include "model/trunk.h"

#include <string>

#include "model/attention.h"
#include "model/mlp.h"
#include "model/moe.h"

namespace archipelago::model {
namespace {

std::unique_ptr<Module> make_feed_forward(Plan& plan, const std::string& prefix,
                                          const config::Model& config, std::int64_t positions,
                                          ExpertExchange* exchange) {
  if (config.kind == "moe") {
    const std::int64_t inner = config.expert_width > 0 ? config.expert_width : 4 * config.width;
    return std::make_unique<Moe>(
        plan, prefix,
        MoeShape{positions, config.width, inner, config.experts, config.experts_per_token,
                 config.balance_loss, config.router_z_loss},
        exchange);
  }
  return std::make_unique<Mlp>(plan, prefix, positions, config.width);
}

}  // namespace

Trunk::Trunk(Plan& plan, const config::Model& config, std::int64_t positions, bool causal,
             ExpertExchange* exchange)
    : positions_(positions), width_(config.width), recompute_(config.recompute) {
  for (std::int64_t i = 0; i <= config.layers; ++i) streams_.push_back(plan.keep(width_));
  d_stream_ = plan.keep(width_);
  const std::int64_t start = plan.kept_per_row();
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    if (recompute_) plan.keep_from(start);
    Block block;
    block.first_element = plan.parameters();
    block.attention = std::make_unique<Attention>(
        plan, prefix, AttentionShape{positions, width_, config.heads, causal});
    block.middle = plan.keep(width_);
    block.middle_element = plan.parameters();
    block.feed_forward = make_feed_forward(plan, prefix, config, positions, exchange);
    blocks_.push_back(std::move(block));
  }
  plan.keep_from(plan.kept_per_row());
  norm_element_ = plan.parameters();
  final_norm_ = std::make_unique<LayerNorm>(plan, "ln_f", width_);
}

void Trunk::forward(kernels::Kernels& kernels, const Storage& storage, std::size_t block,
                    std::int64_t batch) {
  float* middle = storage.activation(blocks_[block].middle);
  blocks_[block].attention->forward(kernels, storage, storage.activation(streams_[block]), middle,
                                    batch);
  blocks_[block].feed_forward->forward(kernels, storage, middle,
                                       storage.activation(streams_[block + 1]), batch);
}

float* Trunk::forward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) forward(kernels, storage, i, batch);
  float* normed = storage.work(WorkArea::normed);
  final_norm_->forward(kernels, storage, normed, storage.activation(streams_.back()),
                       batch * positions_);
  return normed;
}

const float* Trunk::backward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch,
                             const GradientsReady& ready) {
  const std::int64_t rows = batch * positions_;
  float* d_stream = storage.activation(d_stream_);
  kernels.clear(d_stream, rows * width_);
  float* const normed = storage.work(WorkArea::normed);
  final_norm_->backward(kernels, storage, d_stream, normed, storage.activation(streams_.back()),
                        nullptr, rows);
  const auto round = [&] { return kernels.rounded(d_stream, normed, rows * width_); };
  kernels::ConstNumbers rounded = round();
  const auto tell = [&](std::int64_t from) {
    if (ready) ready(from);
  };
  tell(norm_element_);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    // The last block's activations are still there.
    if (recompute_ && i + 1 < blocks_.size()) {
      forward(kernels, storage, i, batch);
      rounded = round();
    }
    rounded = blocks_[i].feed_forward->backward(
        kernels, storage, storage.activation(blocks_[i].middle), d_stream, rounded, batch);
    tell(blocks_[i].middle_element);
    rounded = blocks_[i].attention->backward(kernels, storage, storage.activation(streams_[i]),
                                             d_stream, rounded, batch);
    tell(blocks_[i].first_element);
  }
  return d_stream;
}

}  // namespace archipelago::model
