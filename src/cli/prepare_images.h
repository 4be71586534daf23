#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace archipelago::cli {

// `archipelago prepare images`; `arguments` are those after these words.
int run_prepare_images(std::span<const std::string> arguments);

// Throws Error where no output file is named, or it may not be written (require_new_file).
void require_output(const std::string& out, bool force,
                    std::span<const std::filesystem::path> inputs);

}  // namespace archipelago::cli
