#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

// A checksum over a whole checkpoint file as its last 32 bytes, behind the end of the HDF5 data. It
// covers what HDF5's own checksums do not (text attributes), and lets a damaged file be refused
// before the HDF5 library, which is not proof against damage, looks at it.
namespace archipelago::checkpoint {

// The seal of a file with these bytes, to be put behind them.
std::string seal_of(std::span<const std::byte> file);

enum class Seal { intact, broken, missing };

// Reads the file once. Throws std::system_error where it cannot be read.
Seal check_seal(const std::filesystem::path& path);

}  // namespace archipelago::checkpoint
