#pragma once

#include <string>

namespace archipelago::cli {

// A line for each library that GPUs need, or the one that says that this program has none.
std::string gpu_versions();

}  // namespace archipelago::cli
