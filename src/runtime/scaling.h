#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace archipelago::runtime {

// The requests to change the number of learners that a run has taken (`archipelago scale`, or the
// file `scale` in its folder with a number in it), and what became of the last one.
class Scaling {
 public:
  // Takes the file away and returns the number in it; nothing while there is none. One that holds
  // no number is refused.
  std::optional<int> take(const std::filesystem::path& file);

  void refuse(const std::string& why);

  // {requests, learners, refused}: requests so far; the last one's number, and why not (or null).
  nlohmann::json status() const;

 private:
  std::int64_t requests_ = 0;
  std::int64_t learners_ = 0;
  std::optional<std::string> refusal_;
};

}  // namespace archipelago::runtime
