#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace archipelago::runtime {

// MPI's launcher ends its whole job when it loses one host. The ranks of a job of `launch` on
// several hosts outlive that: `launch` holds on to them by a file in the run's folder, which it
// changes every second, and goes on watching over the run. A rank that MPI's launcher has left ends
// itself when that file is gone, is another start's, or has not changed for a minute.

// The file, by the name of the job's scratch folder: each launcher has its own.
inline std::filesystem::path lifeline_file(const std::filesystem::path& out,
                                           const std::filesystem::path& scratch) {
  return out / (".launcher." + scratch.filename().string());
}
// Where ranks write what they have to say once nobody reads their standard error any more.
inline std::filesystem::path lifeline_log(const std::filesystem::path& out) {
  return out / "log-without-mpirun.txt";
}

// What the file holds.
struct Beat {
  std::string launcher;  // which start of which launcher: one word
  std::int64_t count = 0;
};

// Makes the file, or changes it in place. Throws std::system_error naming it.
void write_beat(const std::filesystem::path& file, const Beat& beat);
// Nothing where there is none.
std::optional<Beat> read_beat(const std::filesystem::path& file);

// Whether the launcher still holds on, as a rank sees it that looks about once a second.
class Lifeline {
 public:
  Lifeline(std::filesystem::path file, std::string launcher);

  // `seconds`: since the last look, not counting time in which this process itself stood still.
  bool holds(double seconds);

  // Whether half the time has passed after which it holds no more.
  bool is_slack() const;

 private:
  std::filesystem::path file_;
  std::string launcher_;
  std::int64_t count_ = -1;
  double silent_ = 0;
  int looks_without_ = 0;
};

// Where the run's folder has this job's file: goes on as a child process in a session of its own,
// which the launcher's daemon does not reach when it ends its ranks, while this process stands in
// for it there, ends as it ends, and never returns. To be called before MPI starts and while there
// is one thread. Throws std::system_error.
void stand_apart(const std::filesystem::path& out);

// To be called once MPI has started: from now on this process, if it stands apart, outlives MPI's
// launcher for as long as the lifeline holds.
void hold_on_to_lifeline(const std::filesystem::path& out);

// Whether MPI's launcher has left this process, which goes on.
bool is_on_lifeline() noexcept;

// Whether it hangs on a slack one: time to end in order.
bool lifeline_is_slack() noexcept;

}  // namespace archipelago::runtime
