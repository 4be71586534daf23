#pragma once

#include <filesystem>
#include <string>

namespace archipelago {

// What the linker took down of this program's content, in hexadecimal digits: the same for the same
// build, on any host and under any name. "unknown" where it took down nothing.
std::string build_id();

// This program's file; where another one has taken its place since, as after a new build, that one.
std::filesystem::path program_file();

}  // namespace archipelago
