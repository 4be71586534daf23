#pragma once

#include <filesystem>
#include <optional>

namespace archipelago::runtime {

// The exit code of a start that the ranks refused, left for `launch` in the folder that it gives
// its job: mpirun may hang when its ranks end so. Only the first rank's word is kept; nothing
// happens in a job that was started otherwise.
void leave_refusal(int rank, int code) noexcept;

// What was left in `folder`, if anything.
std::optional<int> refusal_in(const std::filesystem::path& folder);

// For a new start.
void forget_refusal(const std::filesystem::path& folder) noexcept;

}  // namespace archipelago::runtime
