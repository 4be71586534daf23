#include "runtime/faults.h"

#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cmath>

#include "core/log.h"
#include "runtime/chaos.h"

namespace archipelago::runtime {
namespace {

// A stopped process cannot wake itself: a child does.
void stop_for(pid_t victim, double seconds) {
  const pid_t child = ::fork();
  if (child != 0) return;
  ::kill(victim, SIGSTOP);
  timespec rest{static_cast<time_t>(seconds),
                static_cast<long>((seconds - std::floor(seconds)) * 1e9)};
  while (::nanosleep(&rest, &rest) != 0) {
  }
  ::kill(victim, SIGCONT);
  ::_exit(0);
}

}  // namespace

void inflict(const link::DownHeader& fault, const island::Island& island) {
  const auto& members = island.members();
  const auto rank = static_cast<std::size_t>(fault.fault_rank) % members.size();
  const auto victim = static_cast<pid_t>(members[rank].pid);
  if (fault.fault == static_cast<std::int32_t>(FaultKind::kill)) {
    ::kill(victim, SIGKILL);
  } else {
    stop_for(victim, fault.seconds);
  }
}

}  // namespace archipelago::runtime
