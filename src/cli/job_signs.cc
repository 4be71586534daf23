#include "cli/job_signs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <system_error>

#include "cli/job.h"
#include "core/file.h"
#include "core/log.h"
#include "core/units.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kSilence{30};
constexpr double kLookSeconds = 1;
constexpr double kStandstillTold = 30;  // seconds
// A thread of mpirun that ends hands its children to another one, between two looks at them.
constexpr int kPollsWithout = 5;

bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");  // the state follows the name
  return name_end != line.npos && line[name_end + 2] != 'Z' && line[name_end + 2] != 'X';
}

}  // namespace

FileIdentity identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair{status.st_ino,
                   status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

std::optional<double> Looks::next(double now) {
  if (before_ && now - *before_ < kLookSeconds) return std::nullopt;
  const double passed = before_ ? std::min(now - *before_, longest_) : 0;
  before_ = now;
  return passed;
}

Summary::Summary(const fs::path& folder)
    : path_(folder / "summary.json"), before_(identity_of(path_)) {}

bool Summary::is_new() const {
  const auto now = identity_of(path_);
  return now && now != before_;
}

std::optional<nlohmann::json> Summary::read() const {
  if (!is_new()) return std::nullopt;
  auto summary = nlohmann::json::parse(read_file(path_), nullptr, false);
  if (!summary.is_object() || !summary.contains("exit_code")) return std::nullopt;
  return summary;
}

bool SyncerWatch::is_dead() const {
  std::error_code error;
  const auto written = fs::last_write_time(path_, error);
  // A living syncer writes it every second; a standby takes a few to notice and to follow.
  if (error || written < started_ || fs::file_time_type::clock::now() - written < kSilence) {
    return false;
  }
  const auto status = nlohmann::json::parse(std::ifstream(path_), nullptr, false);
  if (!status.is_object() || !status.contains("syncer")) return false;
  const auto& syncer = status["syncer"];
  return syncer.value("host", "") == host_name() &&
         ::kill(syncer.value("pid", ::getpid()), 0) != 0 && errno == ESRCH;
}

StandstillWatch::StandstillWatch(const fs::path& folder)
    : path_(folder / "status.json"), seen_(identity_of(path_)) {}

void StandstillWatch::look(double now) {
  const auto passed = looks_.next(now);
  if (!passed) return;
  const auto identity = identity_of(path_);
  if (identity != seen_) {
    seen_ = identity;
    silent_ = 0;
    read_status();
  } else if (trains_) {
    silent_ += *passed;
  }
  tell_if_silent();
}

void StandstillWatch::tell_if_silent() {
  const bool silent = silent_ >= kStandstillTold;
  if (silent && !told_) {
    log_warning(syncer_ + " has given no sign of life for " + seconds_text(kStandstillTold) +
                "; learners train on, but nothing is merged");
  }
  told_ = silent;
}

void StandstillWatch::read_status() {
  const auto status = nlohmann::json::parse(std::ifstream(path_), nullptr, false);
  trains_ = status.is_object() && status.value("state", "") == "training";
  if (!trains_ || !status.contains("syncer")) return;
  const auto& syncer = status["syncer"];
  syncer_ = "the syncer (pid " + std::to_string(syncer.value("pid", 0)) + " on " +
            syncer.value("host", "?") + ")";
}

bool RanksWatch::are_gone() {
  const bool lives = std::ranges::any_of(children_of(mpirun_), is_running);
  seen_ = seen_ || lives;
  polls_without_ = lives ? 0 : polls_without_ + 1;
  return seen_ && polls_without_ >= kPollsWithout;
}

}  // namespace archipelago::cli
