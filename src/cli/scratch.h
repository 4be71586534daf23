#pragma once

#include <filesystem>

namespace archipelago::cli {

// Removes what this host's launchers that were killed have left beside `own`, a name with this
// launcher's process id at its end. What can't be removed stays.
void remove_left_behind(const std::filesystem::path& own);

// A folder of this launcher's own for what MPI shares between processes, removed at the end: ranks
// that are killed leave their files there.
class Scratch {
 public:
  // Throws std::filesystem::filesystem_error where it cannot be made.
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  static std::filesystem::path name();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path host_file() const { return path_ / "hosts"; }

 private:
  std::filesystem::path path_;
};

}  // namespace archipelago::cli
