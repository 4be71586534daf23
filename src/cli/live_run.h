#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace archipelago::cli {

// A run in another process, as its status.json tells it (docs/design.md, "A run's folder").
class LiveRun {
 public:
  explicit LiveRun(std::filesystem::path folder);

  struct Reading {
    nlohmann::json status;
    std::chrono::seconds age;  // since the run wrote it

    // Whether the run trains no more.
    bool over() const;
    // Whether it is not over, and yet has written nothing for too long.
    bool silent() const;
  };

  // The run now, or how it ended. Throws Error(configuration) where there is no run.
  Reading read() const;

  // The run now. Throws as read() does, and Error(try_again) where it is over or its syncer has
  // fallen silent.
  nlohmann::json status() const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace archipelago::cli
