#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace archipelago::checkpoint {

struct Damage {
  std::string dataset;  // full path in the file; empty: the file as a whole
  std::string reason;
};

// Everything that is wrong with a file's bytes: that it is missing, its seal, then each dataset's
// checksum. Empty for an intact file. Throws std::system_error where it cannot be read.
std::vector<Damage> find_damage(const std::filesystem::path& path);

}  // namespace archipelago::checkpoint
