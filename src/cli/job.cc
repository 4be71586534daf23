#include "cli/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

namespace archipelago::cli {
namespace {

constexpr int kTickMilliseconds = 200;
constexpr double kPatienceSeconds = 4;  // from the job's being over to SIGTERM, and on to SIGKILL
constexpr double kHoldBackSeconds = 1;  // longest time that a line waits for the rest of its block

[[noreturn]] void fail(const std::string& doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

// In the child, between fork and exec.
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& environment, int error_end) {
  ::setpgid(0, 0);  // so that a terminal's Ctrl-C reaches the launcher alone
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int empty = ::open("/dev/null", O_RDONLY);
  ::dup2(empty, STDIN_FILENO);
  ::dup2(error_end, STDERR_FILENO);
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  std::cerr << "archipelago: cannot start " << command.front() << ": "
            << std::generic_category().message(errno) << std::endl;
  ::_exit(127);
}

// Whatever the child started and left behind is this process's child by now
// (PR_SET_CHILD_SUBREAPER).
void end_orphans() {
  for (auto pids = children_of(::getpid()); !pids.empty(); pids = children_of(::getpid())) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    if (::waitpid(-1, nullptr, 0) < 0 && errno != EINTR) return;
  }
}

}  // namespace

void hold_signals() {
  const sigset_t set = watched_signals();
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) fail("cannot block signals");
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code error;  // it, or a thread of it, has ended
  const auto tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(tasks, error)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) all.push_back(child);
  }
  return all;
}

Job::Job(const std::vector<std::string>& command,
         const std::map<std::string, std::string>& environment, Errors errors)
    : errors_(errors) {
  // Ctrl-C also ends a `tee` that reads this process's output: the job is yet to be stopped.
  pipe_action_ = std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = watched_signals();
  if (::sigprocmask(SIG_BLOCK, &set, &mask_before_) != 0) fail("cannot block signals");
  signals_ = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) fail("cannot receive signals");
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail("cannot adopt orphans");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe");
  stderr_ = FileDescriptor(ends[0]);
  const FileDescriptor error_end(ends[1]);
  if (::fcntl(stderr_.get(), F_SETFL, O_NONBLOCK) != 0) fail("cannot set up a pipe");
  pid_ = ::fork();
  if (pid_ < 0) fail("cannot fork");
  if (pid_ == 0) become(command, environment, error_end.get());
  last_output_ = now();
}

Job::~Job() {
  end_orphans();
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  std::signal(SIGPIPE, pipe_action_);
}

JobEnd Job::wait(const JobWatch& watch) {
  while (!child_has_ended()) {
    look(watch);
    end_if_due();
  }
  while (interrupts_ < 2 && watch.goes_on()) look(watch);
  end_orphans();
  copy_stderr();
  show(filter_.release());
  const int code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
  return {code, interrupts_ > 1};
}

void Job::look(const JobWatch& watch) {
  pollfd ready[] = {{signals_.get(), POLLIN, 0}, {stderr_.get(), POLLIN, 0}};
  // After the end of the stream the pipe would always be ready.
  const nfds_t count = stderr_.valid() ? 2 : 1;
  if (::poll(ready, count, kTickMilliseconds) < 0 && errno != EINTR) fail("cannot wait");
  read_signals(watch);
  copy_stderr();
  if (!over_at_ && watch.is_over()) {
    over_at_ = now();
    filter_.run_has_ended();
  }
}

bool Job::child_has_ended() {
  if (status_) return true;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended < 0 && errno != EINTR) fail("cannot wait for process " + std::to_string(pid_));
  if (ended == pid_) status_ = status;
  return status_.has_value();
}

void Job::read_signals(const JobWatch& watch) {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    // Batch systems repeat their warnings; only a person at a terminal insists.
    if (signal == SIGINT && ++interrupts_ > 1) {
      if (!status_) ::kill(pid_, SIGKILL);
    } else {
      watch.on_signal(signal);
    }
  }
}

void Job::copy_stderr() {
  char buffer[1 << 14];
  while (stderr_.valid()) {
    const ssize_t n = ::read(stderr_.get(), buffer, sizeof buffer);
    if (n > 0) {
      show(filter_.pass({buffer, static_cast<std::size_t>(n)}));
      last_output_ = now();
    } else if (n == 0) {
      stderr_.reset();
    } else if (errno != EINTR) {
      break;
    }
  }
  if (now() - last_output_ > kHoldBackSeconds) show(filter_.release());
}

void Job::show(const std::string& text) const {
  if (errors_ == Errors::shown) std::cerr << text << std::flush;
}

void Job::end_if_due() {
  if (!over_at_ || signals_sent_ > 1) return;
  if (now() < *over_at_ + kPatienceSeconds * (signals_sent_ + 1)) return;
  ::kill(pid_, signals_sent_ == 0 ? SIGTERM : SIGKILL);
  ++signals_sent_;
}

}  // namespace archipelago::cli
