#pragma once

#include <string>

namespace archipelago::kernels {

// The PCI address of the GPU that Device::index names; empty in a build without CUDA.
std::string gpu_address(int index);

}  // namespace archipelago::kernels
