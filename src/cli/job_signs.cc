#include "cli/job_signs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <system_error>

#include "core/file.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kSilence{30};

bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");  // the state follows the name
  return name_end != line.npos && line[name_end + 2] != 'Z' && line[name_end + 2] != 'X';
}

}  // namespace

Summary::Summary(const fs::path& folder) : path_(folder / "summary.json"), before_(identity()) {}

bool Summary::is_new() const { return identity() && identity() != before_; }

std::optional<nlohmann::json> Summary::read() const {
  if (!is_new()) return std::nullopt;
  auto summary = nlohmann::json::parse(read_file(path_), nullptr, false);
  if (!summary.is_object() || !summary.contains("exit_code")) return std::nullopt;
  return summary;
}

// The file is always replaced, never written in place.
Summary::Identity Summary::identity() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return std::nullopt;
  return std::pair{status.st_ino,
                   status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
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

RanksWatch::RanksWatch(pid_t mpirun) : mpirun_("/proc/" + std::to_string(mpirun)) {}

bool RanksWatch::are_gone() {
  bool lives = false;
  std::error_code error;  // mpirun, or a thread of it, has ended
  for (const auto& thread : fs::directory_iterator(mpirun_ / "task", error)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) lives = lives || is_running(child);
  }
  seen_ = seen_ || lives;
  return seen_ && !lives && !error;
}

}  // namespace archipelago::cli
