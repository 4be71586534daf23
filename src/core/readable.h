#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace archipelago {

// The file, to be read from its beginning; nothing where there is none. Throws std::system_error
// naming the path and why it cannot be read.
std::optional<std::ifstream> open_to_read(const std::filesystem::path& path);

// Throws Error(configuration) where there is no such folder.
void require_folder(const std::filesystem::path& path);

// Whether JSON lists and objects lie within each other deeper than any that this program writes:
// what copies or prints them would exhaust its stack.
bool is_nested_too_deeply(std::string_view json);

}  // namespace archipelago
