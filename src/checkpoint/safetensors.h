#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

// The safetensors format: 8 bytes length, a JSON header, the tensors' bytes one after the other.
namespace archipelago::checkpoint {

struct SafeTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major
};

struct NamedSpan {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};

// Writes the tensors as F32, in this order, with {"format": "pt"} as readers of Hugging Face want
// it; whole or not at all. Throws std::system_error naming the path.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedSpan> tensors);

// All F32, F16 and BF16 tensors by name, as f32; tensors of other types are left out. Throws
// Error(bad_data) naming the file and what is wrong with it.
std::map<std::string, SafeTensor> read_safetensors(const std::filesystem::path& path);

// The values of IEEE half precision and bfloat16 numbers given by their bits.
float from_half(std::uint16_t bits);
float from_bfloat16(std::uint16_t bits);

}  // namespace archipelago::checkpoint
