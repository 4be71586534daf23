#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/expert_parallel.h"
#include "model/module.h"

namespace archipelago::model {

struct MoeShape {
  std::int64_t positions;
  std::int64_t width;
  std::int64_t inner;  // width inside an expert
  std::int64_t experts;
  std::int64_t experts_per_token;
  double balance_loss;
  double router_z_loss;
};

// x + the gated sum of the experts that the router chooses for each position of layer_norm(x); each
// expert is an Mlp's inside. No position is dropped, however many choose one expert. The
// load-balancing and z losses, means over the batch's positions, are part of the gradients but not
// of the model's loss. With an `exchange` its ranks divide the experts among them.
class Moe final : public Module {
 public:
  // Tensors `prefix`ln_2.*, `prefix`mlp.router.weight and `prefix`mlp.experts.<e>.*.
  Moe(Plan& plan, const std::string& prefix, const MoeShape& shape, ExpertExchange* exchange);

  void forward(kernels::Kernels& kernels, const Storage& storage, const float* in, float* out,
               std::int64_t batch) override;
  kernels::ConstNumbers backward(kernels::Kernels& kernels, const Storage& storage, const float* in,
                                 float* d_stream, kernels::ConstNumbers rounded,
                                 std::int64_t batch) override;

 private:
  // Where a batch's rows go (kernels::Kernels::group_by_expert): each has experts_per_token places,
  // an expert's places follow one another.
  struct Routes {
    kernels::IndexBuffer chosen;           // [R, K] experts
    kernels::IndexBuffer places;           // [R, K]
    kernels::IndexBuffer rows;             // [R * K] the row at a place
    kernels::Buffer gates;                 // [R * K] its gate
    kernels::IndexBuffer first;            // [E + 1] first place of each expert
    kernels::Buffer load;                  // [E] share of all places
    std::vector<std::int32_t> host_first;  // `first` again

    // Grows in the first step only.
    void reserve(kernels::Kernels& kernels, std::int64_t count, std::int64_t experts);
    std::int64_t begin(std::size_t expert) const { return host_first[expert]; }
    std::int64_t count(std::size_t expert) const {
      return host_first[expert + 1] - host_first[expert];
    }
  };

  // result by place, of normed.
  void experts_forward(kernels::Kernels& kernels, const Storage& storage, const float* normed,
                       float* result);
  // Adds to d_normed; `work` is room for 2C + H numbers a row.
  void experts_backward(kernels::Kernels& kernels, const Storage& storage, const float* normed,
                        const float* d_out, float* d_normed, float* work);
  void expert_backward(kernels::Kernels& kernels, const Storage& storage, std::size_t index,
                       const float* normed, const float* d_out, float* d_normed, float* work);

  MoeShape shape_;
  LayerNorm norm_;
  Parameter router_;
  std::vector<Expert> experts_;
  Activation probabilities_, log_sum_, gates_;
  Activation inner_;  // by place; before the GELU in forward, after it once backward has been there
  Activation result_;  // by place, before the gates
  Routes routes_;
  std::unique_ptr<ExpertParallel> parallel_;
  kernels::Buffer sent_;  // by place; with an exchange
};

}  // namespace archipelago::model
