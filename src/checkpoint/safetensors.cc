#include "checkpoint/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "core/error.h"
#include "core/file.h"

namespace archipelago::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;  // of the first tensor's bytes

std::string header_text(std::span<const NamedSpan> tensors) {
  Json header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t offset = 0;
  for (const NamedSpan& tensor : tensors) {
    const std::size_t end = offset + tensor.values.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

// A tensor as the header describes it.
struct Entry {
  std::string type;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::size_t element_bytes(const std::string& type) {
  if (type == "F32") return 4;
  return type == "F16" || type == "BF16" ? 2 : 0;
}

// Elements of the shape, checked against overflow by the bytes there are.
std::size_t count_elements(const std::vector<std::int64_t>& shape, std::size_t most) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw std::runtime_error("a shape is negative");
    if (extent > 0 && count > most / static_cast<std::size_t>(extent)) {
      throw std::runtime_error("a shape is larger than the file");
    }
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

Entry parse_entry(const Json& json) {
  Entry entry;
  json.at("dtype").get_to(entry.type);
  json.at("shape").get_to(entry.shape);
  const auto& offsets = json.at("data_offsets");
  if (offsets.size() != 2) throw std::runtime_error("data_offsets are not two numbers");
  offsets.at(0).get_to(entry.begin);
  offsets.at(1).get_to(entry.end);
  return entry;
}

float element_at(const char* bytes, const std::string& type) {
  if (type == "F32") {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return type == "F16" ? from_half(bits) : from_bfloat16(bits);
}

SafeTensor read_tensor(const Entry& entry, std::string_view data) {
  const std::size_t width = element_bytes(entry.type);
  if (entry.begin > entry.end || entry.end > data.size()) {
    throw std::runtime_error("data_offsets reach beyond the end of the file");
  }
  const std::size_t count = count_elements(entry.shape, data.size());
  if (count * width != entry.end - entry.begin) {
    throw std::runtime_error("shape and data_offsets do not fit each other");
  }
  SafeTensor tensor{.shape = entry.shape, .values = std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    tensor.values[i] = element_at(data.data() + entry.begin + i * width, entry.type);
  }
  return tensor;
}

std::map<std::string, SafeTensor> parse(std::string_view file) {
  if (file.size() < kLengthBytes) throw std::runtime_error("it is too short");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > file.size() - kLengthBytes) {
    throw std::runtime_error("its header is longer than the file: cut off, or no safetensors file");
  }
  const Json header = Json::parse(file.substr(kLengthBytes, length));
  const std::string_view data = file.substr(kLengthBytes + length);
  std::map<std::string, SafeTensor> tensors;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    const Entry entry = parse_entry(json);
    if (element_bytes(entry.type) == 0) continue;
    try {
      tensors[name] = read_tensor(entry, data);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("tensor " + name + ": " + error.what());
    }
  }
  return tensors;
}

}  // namespace

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent < 31) return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                       : std::numeric_limits<float>::quiet_NaN();
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedSpan> tensors) {
  const std::string header = header_text(tensors);
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes += header;
  for (const NamedSpan& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes());
  }
  write_file(path, bytes, Durability::flushed);
}

std::map<std::string, SafeTensor> read_safetensors(const std::filesystem::path& path) {
  const auto refuse = [&path](const char* why) -> Error {
    return {ExitCode::bad_data, "cannot use " + path.string() + ": " + why};
  };
  try {
    if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) {
      throw std::runtime_error("it is no regular file");  // a pipe or a device may have no end
    }
    return parse(read_file(path));
  } catch (const Json::exception&) {
    throw refuse("its header is not that of a safetensors file");
  } catch (const std::system_error& error) {
    throw refuse(error.what());
  } catch (const std::runtime_error& error) {
    throw refuse(error.what());
  }
}

}  // namespace archipelago::checkpoint
