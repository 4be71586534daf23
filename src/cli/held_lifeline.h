#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/job_signs.h"
#include "cli/stderr_filter.h"

namespace archipelago::cli {

// The launcher's end of a job's lifeline (runtime/lifeline.h), and its look at those who hang on to
// it once mpirun has ended.
class HeldLifeline {
 public:
  // Makes the file in the run's folder, by the name of the job's scratch folder; where it cannot be
  // made the job ends with mpirun.
  HeldLifeline(std::filesystem::path folder, const std::filesystem::path& scratch);
  ~HeldLifeline() { release(); }
  HeldLifeline(const HeldLifeline&) = delete;
  HeldLifeline& operator=(const HeldLifeline&) = delete;

  // To be called again and again, at `now` in seconds of any clock.
  void beat(double now);

  // Lets go: ranks that mpirun has left end themselves. Those that it still has notice nothing.
  void release() noexcept;

  // To be called again and again once mpirun has ended: whether the run goes on without it, by what
  // its syncer writes. Copies what ranks say to standard error.
  bool run_goes_on(double now);

 private:
  void copy_log();

  std::filesystem::path folder_;
  std::filesystem::path file_;
  std::string launcher_;
  bool held_ = false;
  std::int64_t count_ = 0;
  double beaten_ = 0;

  FileIdentity status_;
  std::optional<double> heard_;  // from the syncer, or when mpirun's end was seen
  bool goes_on_ = false;         // the syncer has said so
  std::uintmax_t copied_ = 0;    // bytes of the log
  StderrFilter filter_;
};

}  // namespace archipelago::cli
