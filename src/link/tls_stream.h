#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/file.h"

// Of OpenSSL.
struct ssl_st;

namespace archipelago::link {

// What both ends of a connection know and nobody else does.
using Secret = std::array<std::byte, 32>;

// Of the system's random source. Throws Error(internal) where it fails.
Secret random_secret();
// 64 hexadecimal digits, and back. Throws Error(bad_data) for anything else.
std::string to_hex(const Secret& secret);
Secret secret_from_hex(const std::string& text);

// TLS 1.3 over a connected socket, with the secret in place of certificates (an external pre-shared
// key with Diffie-Hellman, RFC 8446, 2.2): both ends prove that they know it, and what was said
// stays secret even if it becomes known later. No call waits. One thread at a time.
class TlsStream {
 public:
  enum class Side { client, server };
  enum class State {
    ready,        // it went on
    wants_read,   // once something has arrived
    wants_write,  // once there is room
    ended,        // nothing goes any more; problem() says why
  };

  // Makes the socket non-blocking. Throws Error(internal).
  TlsStream(FileDescriptor socket, Side side, const Secret& secret);

  // To be called until it is ready, before anything else.
  State handshake();
  // `done`: bytes that came, above 0 where it returns ready, else 0.
  State read(std::span<std::byte> bytes, std::size_t& done);
  // The same call has to be repeated where it is not ready.
  // Where the other end is gone it goes on and drops the bytes: read() tells of the end.
  State write(std::span<const std::byte> bytes, std::size_t& done);

  // Says nothing more, and waits at most so many seconds until the other end does so too; what
  // comes meanwhile is dropped. A socket that is closed before it is read empty is reset, and what
  // the other end has not read yet is lost with it (RFC 1122, 4.2.2.13).
  void finish(double seconds) noexcept;

  int socket() const { return socket_.get(); }
  // Why it has ended, in a few words.
  const std::string& problem() const { return problem_; }
  // Whether it ended because the other end has another secret, or is no TLS at all.
  bool is_stranger() const { return stranger_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  State outcome(int code);

  FileDescriptor socket_;
  std::unique_ptr<Secret> secret_;  // where it stays when this is moved: OpenSSL has its address
  std::unique_ptr<ssl_st, Free> ssl_;
  std::string problem_;
  bool established_ = false;
  bool stranger_ = false;
};

}  // namespace archipelago::link
