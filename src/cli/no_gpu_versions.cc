#include "cli/gpu_versions.h"

// Stands in for gpu_versions.cc in a build without CUDA.

namespace archipelago::cli {

std::string gpu_versions() { return "CUDA: not built in\n"; }

}  // namespace archipelago::cli
