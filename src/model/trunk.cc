#include "model/trunk.h"

#include <algorithm>
#include <string>

#include "model/attention.h"
#include "model/mlp.h"
#include "model/moe.h"

namespace archipelago::model {
namespace {

std::unique_ptr<Module> make_feed_forward(Plan& plan, const std::string& prefix,
                                          const config::Model& config, std::int64_t positions) {
  if (config.kind == "moe") {
    return std::make_unique<Moe>(
        plan, prefix,
        MoeShape{positions, config.width, config.experts, config.experts_per_token,
                 config.balance_loss, config.router_z_loss});
  }
  return std::make_unique<Mlp>(plan, prefix, positions, config.width);
}

}  // namespace

Trunk::Trunk(Plan& plan, const config::Model& config, std::int64_t positions, bool causal)
    : positions_(positions), width_(config.width) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    streams_.push_back(plan.keep(width_));
    modules_.push_back(std::make_unique<Attention>(
        plan, prefix, AttentionShape{positions, width_, config.heads, causal}));
    streams_.push_back(plan.keep(width_));
    modules_.push_back(make_feed_forward(plan, prefix, config, positions));
  }
  streams_.push_back(plan.keep(width_));
  final_norm_ = std::make_unique<LayerNorm>(plan, "ln_f", width_);
  d_stream_ = plan.keep(width_);
}

float* Trunk::forward(kernels::Kernels& kernels, const Storage& storage, std::int64_t batch) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    modules_[i]->forward(kernels, storage, storage.activation(streams_[i]),
                         storage.activation(streams_[i + 1]), batch);
  }
  float* normed = storage.work(WorkArea::normed);
  final_norm_->forward(kernels, storage, normed, storage.activation(streams_.back()),
                       batch * positions_);
  return normed;
}

const float* Trunk::backward(kernels::Kernels& kernels, const Storage& storage,
                             std::int64_t batch) {
  const std::int64_t rows = batch * positions_;
  float* d_stream = storage.activation(d_stream_);
  std::fill_n(d_stream, rows * width_, 0.0F);
  final_norm_->backward(kernels, storage, d_stream, storage.work(WorkArea::normed),
                        storage.activation(streams_.back()), rows);
  for (std::size_t i = modules_.size(); i-- > 0;) {
    modules_[i]->backward(kernels, storage, storage.activation(streams_[i]), d_stream, batch);
  }
  return d_stream;
}

}  // namespace archipelago::model
