#pragma once

#include <string>

namespace archipelago::cli {

// The checkpoint that an argument names: a file, or a run's folder, whose newest global checkpoint
// is meant (said on standard error). Throws Error(bad_data) for a folder without one.
std::string checkpoint_argument(const std::string& argument);

}  // namespace archipelago::cli
