#include "runtime/lifeline.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "core/blocked_signals.h"
#include "core/file.h"
#include "core/log.h"
#include "mpi/launcher.h"
#include "mpi/session.h"
#include "runtime/clock.h"
#include "runtime/scratch_folder.h"

namespace archipelago::runtime {
namespace {

constexpr double kPatienceSeconds = 60;  // as long as a network's file system may be slow
constexpr int kLooksWithout = 3;         // the same, where the file seems to be gone
constexpr double kLookSeconds = 1;
constexpr double kLongestLook = 5;  // more is this process's own standing still

// In a process that stands apart.
std::filesystem::path held_file;
std::string held_by;  // the launcher

volatile sig_atomic_t child = 0;
std::atomic<bool> on_lifeline{false};
std::atomic<bool> slack{false};

void pass_on(int signal) {
  if (child > 0) ::kill(child, signal);
}

// What the daemon does to this process when it ends its ranks is not meant for the child.
void stand_in() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = pass_on;
  ::sigaction(SIGUSR1, &action, nullptr);
}

[[noreturn]] void end_as_child_ends() {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0};  // there is one already
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(WTERMSIG(status), SIG_DFL);
    ::kill(::getpid(), WTERMSIG(status));
  }
  ::_exit(WEXITSTATUS(status));
}

// mpirun read what ranks write, and is gone.
void redirect_output(const std::filesystem::path& file) {
  const FileDescriptor opened(
      ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!opened.valid()) return;  // what is said from now on is lost
  std::fflush(nullptr);
  ::dup2(opened.get(), STDOUT_FILENO);
  ::dup2(opened.get(), STDERR_FILENO);
}

std::filesystem::path own_file(const std::filesystem::path& out) {
  const auto scratch = scratch_folder();
  return scratch ? lifeline_file(out, *scratch) : "";
}

void watch(const std::filesystem::path& out) {
  mpi::wait_until_launcher_is_gone();
  redirect_output(lifeline_log(out));
  on_lifeline = true;
  Lifeline lifeline(held_file, held_by);
  for (double last = now_seconds(), now = last; lifeline.holds(std::min(now - last, kLongestLook));
       now = now_seconds()) {
    last = now;
    slack = lifeline.is_slack();
    std::this_thread::sleep_for(std::chrono::duration<double>(kLookSeconds));
  }
  log_warning("the launcher is gone, too; this rank ends");
  mpi::die_visibly();
}

}  // namespace

void write_beat(const std::filesystem::path& file, const Beat& beat) {
  // In place and of one length: there is always a whole line, also on a full disk. Opened and
  // closed each time, by which a network's file system tells other hosts.
  char text[256];
  const int size = std::snprintf(text, sizeof text, "%.200s %019lld\n", beat.launcher.c_str(),
                                 static_cast<long long>(beat.count));
  const FileDescriptor opened(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!opened.valid()) {
    throw std::system_error(errno, std::generic_category(), "cannot write " + file.string());
  }
  write_all(opened.get(), std::as_bytes(std::span(text, static_cast<std::size_t>(size))), file);
}

std::optional<Beat> read_beat(const std::filesystem::path& file) {
  std::ifstream stream(file);
  Beat beat;
  if (!(stream >> beat.launcher >> beat.count)) return std::nullopt;
  return beat;
}

Lifeline::Lifeline(std::filesystem::path file, std::string launcher)
    : file_(std::move(file)), launcher_(std::move(launcher)) {}

bool Lifeline::holds(double seconds) {
  const auto beat = read_beat(file_);
  looks_without_ = beat ? 0 : looks_without_ + 1;
  if (beat && beat->launcher != launcher_) return false;
  const bool moved = beat && beat->count != count_;
  silent_ = moved ? 0 : silent_ + seconds;
  if (moved) count_ = beat->count;
  return looks_without_ < kLooksWithout && silent_ < kPatienceSeconds;
}

bool Lifeline::is_slack() const { return silent_ >= kPatienceSeconds / 2; }

void stand_apart(const std::filesystem::path& out) {
  const auto file = own_file(out);
  const auto beat = read_beat(file);
  if (!beat) return;
  {
    const BlockedSignals until_it_is_settled_who_is_who;
    const pid_t pid = ::fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
    child = pid;
    if (pid > 0) {
      stand_in();
    } else {
      ::setsid();
    }
  }
  if (child > 0) end_as_child_ends();
  held_file = file;
  held_by = beat->launcher;
}

void hold_on_to_lifeline(const std::filesystem::path& out) {
  if (held_by.empty()) return;
  if (!mpi::outlive_launcher()) {
    log_warning("this MPI cannot outlive the loss of a host: the run will start again then");
    return;
  }
  ::signal(SIGPIPE, SIG_IGN);
  const BlockedSignals for_other_threads;
  std::thread(watch, out).detach();
}

bool is_on_lifeline() noexcept { return on_lifeline; }

bool lifeline_is_slack() noexcept { return slack; }

}  // namespace archipelago::runtime
