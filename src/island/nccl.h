#pragma once

#include <memory>

#include "island/averaging.h"

namespace archipelago::island {

// The averaging of an island of GPUs. Only in a build with CUDA; else Error(internal), since there
// are no such kernels.
std::unique_ptr<Averaging> make_nccl_averaging(Island& island, kernels::Kernels& kernels);

}  // namespace archipelago::island
