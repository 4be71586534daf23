#pragma once

#include <cstdint>

#include "config/run_config.h"
#include "kernels/kernels.h"

namespace archipelago::model {

// What a model costs, known without making it.
struct Size {
  std::int64_t parameters = 0;
  std::int64_t active = 0;  // of these, what one position's computation goes through
  // Operations of forward and backward for a position: 6 for each weight of a product that it goes
  // through, and attention's two products where a query sees (Chowdhery et al. 2022, App. B).
  double flops = 0;
};
Size size_of(const config::Model& config);

// Bytes of activations that one step of `batch` sequences or images keeps, on kernels of so many
// rows_at_once().
std::int64_t activation_bytes(const config::Model& config, std::int64_t batch,
                              std::int64_t rows_at_once = kernels::kHostRowsAtOnce);

}  // namespace archipelago::model
