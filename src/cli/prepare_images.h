#pragma once

#include <span>
#include <string>

namespace archipelago::cli {

// `archipelago prepare images`; `arguments` are those after these words.
int run_prepare_images(std::span<const std::string> arguments);

// Throws Error where no output file is named, or it exists and may not be replaced.
void require_new(const std::string& out, bool force);

}  // namespace archipelago::cli
