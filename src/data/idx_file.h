#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace archipelago::data {

// An array of bytes in the IDX format of the MNIST data sets.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;  // row-major
};

// Reads a file, packed by gzip or plain. Throws Error(bad_data) naming the file and what is wrong:
// missing, damaged, no IDX file of bytes, shorter or longer than it says.
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace archipelago::data
