#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/model.h"

namespace archipelago::model {

// Handles that a module gets when it is made and turns into pointers when it runs.
struct Parameter {
  std::int64_t offset;  // in the flat buffers, elements
};
struct Activation {
  std::int64_t offset_per_row;  // elements before it for each row
};

// Work areas that every module may use inside one call of forward or backward; what they hold is
// lost after it.
enum class WorkArea { normed, wide };
constexpr int kWorkAreas = 2;

// Collects what modules need before any memory is taken: the tensors in order, and the activations,
// all counted in elements a row (a position of a sequence).
class Plan {
 public:
  // `compact`: of the numbers that only a layer sees (Kernels::compact()).
  explicit Plan(kernels::Precision compact = kernels::Precision::f32) : compact_(compact) {}

  Parameter add(std::string name, std::vector<std::int64_t> shape, TensorRole role);

  // Memory of `per_row` elements a row that lasts from forward to backward.
  Activation keep(std::int64_t per_row);

  // The same for compact numbers.
  Activation keep_compact(std::int64_t per_row) {
    return keep(compact_ == kernels::Precision::bf16 ? (per_row + 1) / 2 : per_row);
  }

  // Whether to keep what backward could work out again: where compact numbers leave the memory.
  bool keeps_more() const { return compact_ == kernels::Precision::bf16; }

  // What is kept from now on takes the memory from `place` on (an earlier kept_per_row()) again,
  // for modules whose activations never have to last at the same time.
  void keep_from(std::int64_t place) { next_kept_ = place; }

  // `area` holds at least `per_row` elements a row.
  void work(WorkArea area, std::int64_t per_row);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::int64_t parameters() const { return parameters_; }
  std::int64_t kept_per_row() const { return kept_per_row_; }
  // All of it: kept and work areas.
  std::int64_t per_row() const {
    return kept_per_row_ + work_per_row(WorkArea::normed) + work_per_row(WorkArea::wide);
  }
  std::int64_t work_per_row(WorkArea area) const { return work_per_row_[static_cast<int>(area)]; }

 private:
  kernels::Precision compact_;
  std::vector<TensorInfo> tensors_;
  std::int64_t parameters_ = 0;
  std::int64_t next_kept_ = 0;
  std::int64_t kept_per_row_ = 0;
  std::array<std::int64_t, kWorkAreas> work_per_row_{};
};

// The memory that a Plan asked for, for up to `rows` rows.
class Storage {
 public:
  Storage(kernels::Kernels& kernels, const Plan& plan, std::int64_t rows);

  float* value(Parameter parameter) const { return parameters_.data() + parameter.offset; }
  float* gradient(Parameter parameter) const { return gradients_.data() + parameter.offset; }
  float* activation(Activation activation) const {
    return activations_.data() + activation.offset_per_row * rows_;
  }
  float* work(WorkArea area) const { return work_[static_cast<int>(area)].data(); }
  std::span<float> parameters() const { return {parameters_.data(), count_}; }
  std::span<float> gradients() const { return {gradients_.data(), count_}; }
  std::int64_t rows() const { return rows_; }

 private:
  std::int64_t rows_;
  std::size_t count_;
  kernels::Buffer parameters_;
  kernels::Buffer gradients_;
  kernels::Buffer activations_;
  std::array<kernels::Buffer, kWorkAreas> work_;
};

}  // namespace archipelago::model
