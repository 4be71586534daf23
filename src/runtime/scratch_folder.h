#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace archipelago::runtime {

// The folder that `launch` gives its job for what MPI shares between processes, by which each rank
// knows its launcher too; nothing in a job that was started otherwise.
inline std::optional<std::filesystem::path> scratch_folder() {
  const char* const folder = std::getenv("OMPI_MCA_btl_sm_backing_directory");
  if (folder == nullptr) return std::nullopt;
  return folder;
}

}  // namespace archipelago::runtime
