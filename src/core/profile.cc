#include "core/profile.h"

#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

namespace archipelago {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Profile {
  double started = 0;  // 0: off
  ProfileHooks hooks{nullptr, nullptr};
  std::vector<std::pair<std::string, double>> seconds;  // in the order in which they first ended

  void add(const char* name, double more) {
    for (auto& [known, total] : seconds) {
      if (known != name) continue;
      total += more;
      return;
    }
    seconds.emplace_back(name, more);
  }
};

Profile& profile() {
  static Profile profile;
  return profile;
}

}  // namespace

void start_profiling() { profile().started = now(); }

void set_profile_hooks(const ProfileHooks& hooks) { profile().hooks = hooks; }

ProfileRange::ProfileRange(const char* name) : name_(profile().started > 0 ? name : nullptr) {
  if (name_ == nullptr) return;
  if (profile().hooks.begin != nullptr) profile().hooks.begin(name_);
  started_ = now();
}

ProfileRange::~ProfileRange() {
  if (name_ == nullptr) return;
  profile().add(name_, now() - started_);
  if (profile().hooks.end != nullptr) profile().hooks.end();
}

std::string profile_summary() {
  std::string summary;
  const double whole = now() - profile().started;
  for (const auto& [name, seconds] : profile().seconds) {
    char text[64];
    std::snprintf(text, sizeof text, " %.2f s (%.1f %%)", seconds, 100 * seconds / whole);
    summary += (summary.empty() ? "" : ", ") + name + text;
  }
  return summary;
}

}  // namespace archipelago
