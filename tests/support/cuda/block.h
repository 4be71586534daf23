#pragma once

#include <cstddef>
#include <functional>

#include "emulation.h"

namespace archipelago::emulation {

// Runs the grid's blocks one after the other.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel,
              Order order);

}  // namespace archipelago::emulation
