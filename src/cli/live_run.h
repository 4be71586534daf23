#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace archipelago::cli {

// A run that goes on in another process, as its status.json tells it (docs/design.md, "A run's
// folder").
class LiveRun {
 public:
  explicit LiveRun(std::filesystem::path folder);

  // The run now. Throws Error(configuration) where there is no run, Error(try_again) where it is
  // over or its syncer has fallen silent.
  nlohmann::json status() const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace archipelago::cli
