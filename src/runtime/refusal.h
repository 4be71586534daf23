#pragma once

#include <filesystem>
#include <optional>

namespace archipelago::runtime {

// What a guest leaves where the run has ended before all was trained: no exit code of the
// program's, join ends with try_again.
inline constexpr int kRunEndedEarly = 1;

// The exit code of a start that the ranks refused, or with which a guest's part in a run has ended,
// left for `launch` and `join` in the folder that they give their job: mpirun may hang when its
// ranks end so, and its own code is no verdict. Only the first rank's word is kept; nothing
// happens in a job that was started otherwise.
void leave_refusal(int rank, int code) noexcept;

// What was left in `folder`, if anything.
std::optional<int> refusal_in(const std::filesystem::path& folder);

// For a new start.
void forget_refusal(const std::filesystem::path& folder) noexcept;

}  // namespace archipelago::runtime
