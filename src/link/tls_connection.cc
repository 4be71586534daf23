#include "link/tls_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "core/error.h"

namespace archipelago::link {
namespace {

using State = TlsStream::State;

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  double left() const {
    return std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

[[noreturn]] void give_up(const std::string& why) { throw Error(ExitCode::try_again, why); }

// Repeats `step` until it is ready.
void complete(TlsStream& stream, const Deadline& deadline, const std::function<State()>& step) {
  for (State state = step(); state != State::ready; state = step()) {
    if (state == State::ended) give_up(stream.problem());
    if (!wait_for(stream, state, deadline.left())) give_up("no answer in time");
  }
}

void write_all(TlsStream& stream, std::span<const std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    std::size_t done = 0;
    complete(stream, deadline, [&] { return stream.write(bytes, done); });
    bytes = bytes.subspan(done);
  }
}

void read_all(TlsStream& stream, std::span<std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    std::size_t done = 0;
    complete(stream, deadline, [&] { return stream.read(bytes, done); });
    bytes = bytes.subspan(done);
  }
}

bool wait_on(int descriptor, short events, double seconds) {
  pollfd waiting{descriptor, events, 0};
  const auto milliseconds = static_cast<int>(std::ceil(std::min(seconds, 1e6) * 1000));
  const int ready = ::poll(&waiting, 1, milliseconds);
  return ready > 0 || (ready < 0 && errno == EINTR && seconds > 0);
}

// Not valid where nobody answers; errno says why.
FileDescriptor connect_to(const addrinfo& info, const Deadline& deadline) {
  FileDescriptor socket(
      ::socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info.ai_protocol));
  if (!socket.valid()) return socket;
  if (::connect(socket.get(), info.ai_addr, info.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  if (!wait_on(socket.get(), POLLOUT, deadline.left())) {
    errno = ETIMEDOUT;
    return {};
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0 ? std::move(socket) : FileDescriptor();
}

// By errno.
std::string no_answer(const Address& address) {
  return "nobody answers at " + to_text(address) + " (" + std::strerror(errno) + ")";
}

// Not valid where nobody answers; errno says why. Throws where the host is unknown.
FileDescriptor connect_to(const Address& address, const Deadline& deadline) {
  const AddressList found = look_up(address);
  FileDescriptor socket;
  for (const addrinfo* info = found.get(); info != nullptr && !socket.valid();
       info = info->ai_next) {
    socket = connect_to(*info, deadline);
  }
  return socket;
}

}  // namespace

void set_socket_options(int socket) {
  const int on = 1;
  const int milliseconds = 30'000;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  const int seconds = 10;
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

bool wait_for(const TlsStream& stream, TlsStream::State state, double seconds) {
  return wait_on(stream.socket(), state == State::wants_write ? POLLOUT : POLLIN, seconds);
}

std::optional<std::string> silence_of(const Address& address, double seconds) {
  if (connect_to(address, Deadline(seconds)).valid()) return std::nullopt;
  return no_answer(address);
}

TlsConnection TlsConnection::connect(const Address& address, const Secret& secret, double seconds) {
  const Deadline deadline(seconds);
  const std::string where = to_text(address);
  FileDescriptor socket = connect_to(address, deadline);
  if (!socket.valid()) {
    give_up(no_answer(address));
  }
  set_socket_options(socket.get());
  TlsStream stream(std::move(socket), TlsStream::Side::client, secret);
  try {
    complete(stream, deadline, [&] { return stream.handshake(); });
  } catch (const Error& problem) {
    if (!stream.is_stranger()) give_up("no connection with " + where + ": " + problem.what());
    throw Error(ExitCode::configuration, where + " does not know this secret (" + stream.problem() +
                                             "); it belongs to another run");
  }
  return TlsConnection(std::move(stream));
}

void TlsConnection::send(std::span<const std::byte> message, double seconds) {
  const Deadline deadline(seconds);
  const std::uint64_t bytes = message.size();
  write_all(stream_, std::as_bytes(std::span(&bytes, 1)), deadline);
  write_all(stream_, message, deadline);
}

std::vector<std::byte> TlsConnection::receive(std::size_t largest, double seconds) {
  const Deadline deadline(seconds);
  std::uint64_t bytes = 0;
  read_all(stream_, std::as_writable_bytes(std::span(&bytes, 1)), deadline);
  if (bytes > largest) give_up("a message is too long");
  std::vector<std::byte> message(bytes);
  read_all(stream_, message, deadline);
  return message;
}

}  // namespace archipelago::link
