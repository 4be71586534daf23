#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>

#include "link/tls_connection.h"

namespace archipelago::link {

// Where leaders from outside the job connect. One thread at a time.
class TlsListener {
 public:
  // Port 0: any that is free. Throws Error(configuration) where it cannot listen there.
  TlsListener(const Address& address, const Secret& secret);

  // With the port that it has.
  const Address& address() const { return address_; }

  // The next connection whose other end has proved to know the secret; nothing within so many
  // seconds. Others are dropped, one with another secret with a line in the log; several are heard
  // at a time, so that one that says nothing keeps nobody waiting.
  std::optional<TlsConnection> accept(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct Caller {
    TlsStream stream;
    std::string who;
    Clock::time_point deadline;
    TlsStream::State state;
  };

  void wait(double seconds);
  void take_callers();
  std::optional<TlsConnection> hear();

  Address address_;
  Secret secret_;
  FileDescriptor socket_;
  std::list<Caller> callers_;
};

}  // namespace archipelago::link
