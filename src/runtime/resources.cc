#include "runtime/resources.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "config/options.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/learner_memory.h"

namespace archipelago::runtime {
namespace {

constexpr double kMib = 1 << 20;

// What learners take of this host at the least: all of them where the whole job is here.
double learner_bytes(const Setup& setup, const Layout& layout) {
  const auto of_rank = [&setup](int learner) {
    const auto own = config::for_learner(setup.config, learner);
    return static_cast<double>(learner_memory(setup, own, 0).total());
  };
  const char* const local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local == nullptr || std::atoi(local) != layout.world_size()) return of_rank(0);
  double bytes = 0;
  for (int learner = 0; learner < setup.config.sync.learners; ++learner) bytes += of_rank(learner);
  return bytes * layout.ranks_per_island;
}

double memory_of_host() {
  return std::min(static_cast<double>(machine_memory()),
                  memory_of_group("/proc/self/cgroup", "/sys/fs/cgroup"));
}

// The number in a control group's file; infinite where it says "max" or there is none.
double limit_in(const std::filesystem::path& file) {
  double limit = 0;
  return std::ifstream(file) >> limit ? limit : std::numeric_limits<double>::infinity();
}

}  // namespace

double memory_of_group(const std::filesystem::path& membership, const std::filesystem::path& root) {
  double limit = std::numeric_limits<double>::infinity();
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const bool unified = controllers.empty();
    const std::filesystem::path mounted = unified ? root : root / "memory";
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();
    while (true) {
      limit = std::min(
          limit, limit_in(mounted / group / (unified ? "memory.max" : "memory.limit_in_bytes")));
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  return limit;
}

void require_resources(const Setup& setup, const Layout& layout,
                       const std::vector<island::Member>& ranks, int rank) {
  require_memory(learner_bytes(setup, layout), memory_of_host());
  const char* const folder = std::getenv("OMPI_MCA_osc_rdma_backing_directory");
  struct statvfs status {};
  const bool has_windows = config::has_syncer(setup.config) && rank < layout.syncers;
  if (!has_windows || folder == nullptr || ::statvfs(folder, &status) != 0) return;
  const std::string& host = ranks.at(static_cast<std::size_t>(rank)).host;
  require_window_room(window_bytes(setup, layout, ranks, host), layout.islands,
                      static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize, folder);
}

std::uint64_t window_bytes(const Setup& setup, const Layout& layout,
                           const std::vector<island::Member>& ranks, const std::string& host) {
  std::uint64_t bytes = 0;
  for (int syncer = 0; syncer < layout.syncers; ++syncer) {
    if (ranks.at(static_cast<std::size_t>(syncer)).host != host) continue;
    const Share share = syncer < layout.merging ? Share{syncer, layout.merging} : Share{};
    bytes += mailbox_layout(setup, share).bytes() * static_cast<std::uint64_t>(layout.islands);
  }
  return bytes;
}

void require_memory(double needed, double memory) {
  if (needed <= memory) return;
  char line[160];
  std::snprintf(line, sizeof line,
                "the learners on this host need %.0f MiB of memory, it has %.0f; choose a smaller "
                "model or batch, or use more hosts",
                needed / kMib, memory / kMib);
  throw Error(ExitCode::configuration, line);
}

void require_window_room(std::uint64_t needed, int islands, std::uint64_t free,
                         const std::string& folder) {
  if (needed <= free) return;
  char line[128];
  std::snprintf(line, sizeof line, "the exchange with %d islands needs %.0f MiB, but %.0f are free",
                islands, static_cast<double>(needed) / kMib, static_cast<double>(free) / kMib);
  throw Error(ExitCode::configuration,
              std::string(line) + " in " + folder +
                  "; make its file system larger (of a container: --shm-size), or set more "
                  "sync.fragments");
}

}  // namespace archipelago::runtime
