#include "model/storage.h"

#include <algorithm>
#include <utility>

namespace archipelago::model {

Parameter Plan::add(std::string name, std::vector<std::int64_t> shape, TensorRole role) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) size *= extent;
  const Parameter parameter{parameters_};
  tensors_.push_back({std::move(name), std::move(shape), parameters_, size, role});
  parameters_ += size;
  return parameter;
}

Activation Plan::keep(std::int64_t per_row) {
  const Activation activation{next_kept_};
  next_kept_ += per_row;
  kept_per_row_ = std::max(kept_per_row_, next_kept_);
  return activation;
}

void Plan::work(WorkArea area, std::int64_t per_row) {
  std::int64_t& size = work_per_row_[static_cast<int>(area)];
  size = std::max(size, per_row);
}

Storage::Storage(kernels::Kernels& kernels, const Plan& plan, std::int64_t rows)
    : rows_(rows),
      count_(static_cast<std::size_t>(plan.parameters())),
      parameters_(kernels, plan.parameters()),
      gradients_(kernels, plan.parameters()),
      activations_(kernels, plan.kept_per_row() * rows),
      work_{kernels::Buffer(kernels, plan.work_per_row(WorkArea::normed) * rows),
            kernels::Buffer(kernels, plan.work_per_row(WorkArea::wide) * rows)} {}

}  // namespace archipelago::model
