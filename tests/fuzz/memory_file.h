#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/file.h"

namespace archipelago {

// A file in memory for readers that take a path, gone at the end of its life. One a process.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes)
      : path_("/dev/shm/archipelago_fuzz." + std::to_string(getpid())) {
    write_file(path_, bytes, Durability::unflushed);
  }
  ~MemoryFile() { std::filesystem::remove(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace archipelago
