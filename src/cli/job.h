#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/stderr_filter.h"
#include "core/file.h"

namespace archipelago::cli {

// What Job::wait() is told from outside the job.
struct JobWatch {
  // Whether the job has said in its own files that it is over.
  std::function<bool()> is_over;
  // The caller was asked to end the job: SIGTERM, SIGINT, SIGHUP or SIGUSR1.
  std::function<void(int signal)> on_signal;
  // Whether the job goes on although the started program has ended; asked again and again then.
  std::function<bool()> goes_on = [] { return false; };
};

// How the started program itself ended: its exit code, or 128 + the signal; a job that did not end
// by itself once it was over, and was ended, counts as ended by that signal.
struct JobEnd {
  int code = 0;
  bool interrupted = false;  // by a second SIGINT
};

// The child processes of any thread of `pid`, those that nobody has waited for among them; fewer
// where threads come and go meanwhile.
std::vector<pid_t> children_of(pid_t pid);

// From now on the signals that a Job reads wait for the next one while there is none.
void hold_signals();

enum class Errors { shown, dropped };

// A child process in a process group of its own, its standard error filtered through StderrFilter
// or dropped, its standard input empty. Everything that it started and left behind is killed when
// it is over. While a Job lives, SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGCHLD are blocked in this
// thread and read by wait(); SIGPIPE is ignored.
class Job {
 public:
  // Throws std::system_error naming the step that failed.
  Job(const std::vector<std::string>& command,
      const std::map<std::string, std::string>& environment, Errors errors = Errors::shown);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Waits for the end. Once the watch says that the job is over, the child has a few seconds to end
  // by itself; then it gets SIGTERM, then SIGKILL.
  JobEnd wait(const JobWatch& watch);

  pid_t pid() const { return pid_; }

 private:
  void read_signals(const JobWatch& watch);
  void copy_stderr();
  void show(const std::string& text) const;
  void end_if_due();
  bool child_has_ended();
  void look(const JobWatch& watch);

  void (*pipe_action_)(int) = nullptr;  // on SIGPIPE, before this Job
  sigset_t mask_before_{};              // this thread's, likewise
  FileDescriptor signals_;
  FileDescriptor stderr_;
  StderrFilter filter_;
  Errors errors_;
  pid_t pid_ = -1;
  std::optional<int> status_;      // as waitpid gives it
  std::optional<double> over_at_;  // when the job was first seen to be over, seconds
  double last_output_ = 0;
  int signals_sent_ = 0;  // SIGTERM, then SIGKILL
  int interrupts_ = 0;    // SIGINT so far
};

}  // namespace archipelago::cli
