#pragma once

#include <memory>
#include <utility>

#include "model/storage.h"

namespace archipelago::model {

// A model whose tensors and activations `Parts` plans, which has a member `plan`: the memory that
// the plan asks for and what every model says of it.
template <typename Parts>
class Network : public Model {
 public:
  std::span<const TensorInfo> tensors() const final { return parts_.plan.tensors(); }
  kernels::Kernels& kernels() final { return *kernels_; }
  std::span<float> parameters() final { return storage_.parameters(); }
  std::span<float> gradients() final { return storage_.gradients(); }
  void initialize(std::uint64_t seed) final { initialize_on_device(*this, config_, seed); }

 protected:
  // Memory for `rows` rows of activations. `arguments`: of Parts beside the configuration.
  template <typename... Arguments>
  Network(const config::Model& config, std::shared_ptr<kernels::Kernels> kernels, std::int64_t rows,
          Arguments... arguments)
      : config_(config),
        kernels_(std::move(kernels)),
        parts_(config, Plan(kernels_->compact(nullptr).precision), arguments...),
        storage_(*kernels_, parts_.plan, rows) {}

  config::Model config_;
  std::shared_ptr<kernels::Kernels> kernels_;
  Parts parts_;
  Storage storage_;
};

}  // namespace archipelago::model
