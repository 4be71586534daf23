#pragma once

#include <chrono>
#include <thread>

namespace archipelago::runtime {

// Seconds on the steady clock; only differences mean something.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void sleep_seconds(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace archipelago::runtime
