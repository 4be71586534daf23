#pragma once

#include <filesystem>
#include <string>

namespace archipelago::runtime {

// By which `launch` knows which ranks have come while a job starts: it lays out an empty file for
// each of them, a rank writes its host and process id into its own and touches it every second
// until it is gone.

// Where the files lie: in the scratch folder of a job on the launcher's host, else in the run's own
// folder, which all hosts see, by the scratch folder's name: each launcher has its own.
inline std::filesystem::path roll_in_scratch(const std::filesystem::path& scratch) {
  return scratch / "start";
}
inline std::filesystem::path roll_in_run(const std::filesystem::path& out,
                                         const std::filesystem::path& scratch) {
  return out / (".start." + scratch.filename().string());
}
inline std::filesystem::path roll_file(const std::filesystem::path& roll, int rank) {
  return roll / std::to_string(rank);
}

// To be called before MPI starts, where a rank may wait for one that never comes. Nothing happens
// in a job that was started otherwise.
void answer_roll_call(const std::filesystem::path& out, int rank) noexcept;

}  // namespace archipelago::runtime
