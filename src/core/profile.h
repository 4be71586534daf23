#pragma once

#include <string>

namespace archipelago {

// Where the time of a process's main thread goes, by the names of ranges: for --profile.

// Off at first: then a range costs a branch.
void start_profiling();

// Told of every range's beginning and end while profiling, so that a GPU's profiler shows them.
struct ProfileHooks {
  void (*begin)(const char* name);
  void (*end)();
};
void set_profile_hooks(const ProfileHooks& hooks);

// From its making to its end. `name` must live as long as the program. Ranges do not overlap.
class ProfileRange {
 public:
  explicit ProfileRange(const char* name);
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  const char* name_;  // null: not profiling
  double started_ = 0;
};

// "forward and backward 12.30 s (81.2 %), ..." over the time since profiling started; empty
// without.
std::string profile_summary();

}  // namespace archipelago
