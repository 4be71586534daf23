#include "link/tls_listener.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"

namespace archipelago::link {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};
constexpr std::chrono::milliseconds kPause{100};
constexpr std::size_t kCallers = 64;  // at a time; more wait in the system's queue

[[noreturn]] void fail(const Address& address, const std::string& why) {
  throw Error(ExitCode::configuration, "cannot listen at " + to_text(address) + ": " + why +
                                           "; give sync.listen an address of this host and a "
                                           "port that is free (0: any)");
}

std::string numeric(const sockaddr_storage& address, socklen_t size, std::uint16_t* port) {
  char host[NI_MAXHOST] = "?";
  char service[NI_MAXSERV] = "0";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, service,
                sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
  if (port != nullptr) *port = static_cast<std::uint16_t>(std::stoi(service));
  return host;
}

AddressList own_addresses(const Address& address) try {
  return look_up(address, AI_PASSIVE);
} catch (const Error& error) {
  fail(address, error.what());
}

FileDescriptor listen_at(const Address& address) {
  const AddressList found = own_addresses(address);
  FileDescriptor socket(::socket(
      found->ai_family, found->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol));
  const int on = 1;
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    fail(address, std::strerror(errno));
  }
  return socket;
}

}  // namespace

TlsListener::TlsListener(const Address& address, const Secret& secret)
    : address_(address), secret_(secret), socket_(listen_at(address)) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    fail(address, std::strerror(errno));
  }
  numeric(own, size, &address_.port);
}

std::optional<TlsConnection> TlsListener::accept(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    take_callers();
    if (auto connection = hear()) return connection;
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    wait(left);
  }
}

void TlsListener::wait(double seconds) {
  std::vector<pollfd> waiting;
  if (callers_.size() < kCallers) waiting.push_back({socket_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) {
    const short event = caller.state == TlsStream::State::wants_write ? POLLOUT : POLLIN;
    waiting.push_back({caller.stream.socket(), event, 0});
    seconds =
        std::min(seconds, std::chrono::duration<double>(caller.deadline - Clock::now()).count());
  }
  const double milliseconds = std::ceil(std::max(seconds, 0.0) * 1000);
  ::poll(waiting.data(), waiting.size(), static_cast<int>(milliseconds));
}

void TlsListener::take_callers() {
  while (callers_.size() < kCallers) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    FileDescriptor socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // Out of descriptors, say: the caller would be announced again and again.
      const bool nobody = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      if (!nobody) std::this_thread::sleep_for(kPause);
      return;
    }
    set_socket_options(socket.get());
    callers_.push_back({TlsStream(std::move(socket), TlsStream::Side::server, secret_),
                        numeric(from, size, nullptr), Clock::now() + kHandshakeTime,
                        TlsStream::State::wants_read});
  }
}

std::optional<TlsConnection> TlsListener::hear() {
  const auto now = Clock::now();
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    caller->state = caller->stream.handshake();
    if (caller->state == TlsStream::State::ready) {
      TlsConnection connection(std::move(caller->stream));
      callers_.erase(caller);
      return connection;
    }
    const bool has_ended = caller->state == TlsStream::State::ended;
    if (has_ended || now > caller->deadline) {
      // Who says nothing may only have looked whether somebody listens.
      const bool is_stranger = caller->stream.is_stranger();
      log_line(is_stranger ? LogLevel::warning : LogLevel::debug,
               "somebody at " + caller->who + " was turned away: " +
                   (is_stranger ? "not with this run's secret"
                    : has_ended ? caller->stream.problem()
                                : std::string("it said nothing")));
      caller = callers_.erase(caller);
    } else {
      ++caller;
    }
  }
  return std::nullopt;
}

}  // namespace archipelago::link
