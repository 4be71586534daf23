#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace archipelago {

// XXH3-64 of the bytes; `seed` chains several spans: checksum(b, checksum(a)).
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// The same of bytes that come a part at a time.
class Checksum {
 public:
  explicit Checksum(std::uint64_t seed = 0);
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 16 lower-case hexadecimal digits.
std::string to_hex(std::uint64_t value);

}  // namespace archipelago
