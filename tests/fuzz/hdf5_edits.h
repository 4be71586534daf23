#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace archipelago::fuzz {

// The input as a row of decisions; zeros once it has come to its end.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }

  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return first;
  }

  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

  std::size_t below(std::size_t count) { return count == 0 ? 0 : byte() % count; }

  // Small, huge, or anything.
  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 8> kEdges{
        0, 1, 2, (1ULL << 31), (1ULL << 32) + 1, (1ULL << 63) - 1, 1ULL << 63, ~0ULL};
    switch (below(3)) {
      case 0:
        return byte();
      case 1:
        return kEdges[below(kEdges.size())];
      default:
        return word();
    }
  }

  std::string text() {
    std::string text(below(20), '\0');
    for (char& c : text) c = static_cast<char>(byte());
    return text;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// The file with these bytes after the edits that the choices make of it; HDF5 refuses some.
std::string edited(const std::string& original, Choices& choices);

}  // namespace archipelago::fuzz
