#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "link/message.h"
#include "link/tls_connection.h"
#include "link/tls_listener.h"

// Two ends of a connection over TLS in one process, and what is sent over it.

namespace archipelago::link {

inline constexpr double kLong = 600;  // seconds: whatever takes longer hangs

inline bool comes(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kLong);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 source(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = std::byte(source());
  return bytes;
}

inline Report report_at(std::int64_t step) {
  Report report;
  report.step = step;
  return report;
}

struct Pair {
  TlsConnection leader;
  TlsConnection syncer;
};

inline Pair connected(const Secret& secret = random_secret()) {
  TlsListener listener({"127.0.0.1", 0}, secret);
  auto leader = std::async(std::launch::async, [&] {
    return TlsConnection::connect(listener.address(), secret, kLong);
  });
  auto syncer = listener.accept(kLong);
  if (!syncer) throw std::runtime_error("no connection");
  return {leader.get(), std::move(*syncer)};
}

}  // namespace archipelago::link
