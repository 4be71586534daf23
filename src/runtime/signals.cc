#include "runtime/signals.h"

#include <signal.h>

#include <atomic>

namespace archipelago::runtime {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) { caught = signal; }

}  // namespace

void catch_stop_signals(SecondSignal second) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  if (second == SecondSignal::kills) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

int stop_signal() { return caught; }

std::optional<std::string> signal_request() {
  const int signal = stop_signal();
  return signal == 0 ? std::nullopt : std::optional("signal " + std::to_string(signal));
}

}  // namespace archipelago::runtime
