#include "link/tls_stream.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace archipelago::link {
namespace {

constexpr char kIdentity[] = "archipelago";

// What OpenSSL has to say, and forgets then.
std::string last_error() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return reason == nullptr ? "unknown" : reason;
}

template <typename Pointer>
Pointer required(Pointer pointer, const char* what) {
  if (pointer == nullptr) {
    throw Error(ExitCode::internal, std::string("OpenSSL gives no ") + what + ": " + last_error());
  }
  return pointer;
}

// ---- The socket as OpenSSL sees it: its own would raise SIGPIPE where the peer is gone ----

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
}

int finish_transfer(BIO* bio, ssize_t moved, void (*retry)(BIO*)) {
  ::BIO_clear_retry_flags(bio);
  if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) retry(bio);
  return static_cast<int>(moved);
}

// What a peer that is gone would have been sent is dropped: what it sent before its end can still
// be read, and then its end.
int send_bytes(BIO* bio, const char* bytes, int count) {
  ssize_t sent = ::send(descriptor_of(bio), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) sent = count;
  return finish_transfer(bio, sent, [](BIO* b) { BIO_set_retry_write(b); });
}

int receive_bytes(BIO* bio, char* bytes, int count) {
  return finish_transfer(bio, ::recv(descriptor_of(bio), bytes, static_cast<std::size_t>(count), 0),
                         [](BIO* b) { BIO_set_retry_read(b); });
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int make_ready(BIO* bio) {
  ::BIO_set_init(bio, 1);
  return 1;
}

BIO_METHOD* make_method() {
  BIO_METHOD* method = required(
      ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket"), "kind of stream");
  ::BIO_meth_set_write(method, send_bytes);
  ::BIO_meth_set_read(method, receive_bytes);
  ::BIO_meth_set_ctrl(method, control);
  ::BIO_meth_set_create(method, make_ready);
  return method;
}

BIO* bio_of(int socket) {
  static BIO_METHOD* const method = make_method();  // for the process's whole life
  BIO* bio = required(::BIO_new(method), "stream");
  ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  return bio;
}

// ---- The secret ----

unsigned give_secret(SSL* ssl, unsigned char* key, unsigned room) {
  const auto* const secret = static_cast<const Secret*>(SSL_get_app_data(ssl));
  if (secret == nullptr || room < secret->size()) return 0;
  std::memcpy(key, secret->data(), secret->size());
  return static_cast<unsigned>(secret->size());
}

unsigned tell_as_client(SSL* ssl, const char*, char* identity, unsigned longest, unsigned char* key,
                        unsigned room) {
  if (longest < sizeof kIdentity) return 0;
  std::memcpy(identity, kIdentity, sizeof kIdentity);
  return give_secret(ssl, key, room);
}

unsigned tell_as_server(SSL* ssl, const char* identity, unsigned char* key, unsigned room) {
  if (identity == nullptr || std::strcmp(identity, kIdentity) != 0) return 0;
  return give_secret(ssl, key, room);
}

struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};

std::unique_ptr<SSL_CTX, FreeContext> make_context(TlsStream::Side side) {
  const bool is_client = side == TlsStream::Side::client;
  std::unique_ptr<SSL_CTX, FreeContext> context(required(
      ::SSL_CTX_new(is_client ? ::TLS_client_method() : ::TLS_server_method()), "context"));
  // A pre-shared key goes with SHA-256. Unlike AES-GCM (RFC 8446, 5.5) this cipher needs no new key
  // however much a long run sends.
  if (::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context.get(), "TLS_CHACHA20_POLY1305_SHA256") != 1 ||
      ::SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    throw Error(ExitCode::internal, "OpenSSL has no TLS 1.3 as it is needed: " + last_error());
  }
  // Several records come with one call of the system.
  constexpr std::size_t kReadAhead = 256 << 10;
  ::SSL_CTX_set_read_ahead(context.get(), 1);
  ::SSL_CTX_set_default_read_buffer_len(context.get(), kReadAhead);
  ::SSL_CTX_set_mode(context.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (is_client) {
    ::SSL_CTX_set_psk_client_callback(context.get(), tell_as_client);
  } else {
    ::SSL_CTX_set_psk_server_callback(context.get(), tell_as_server);
  }
  return context;
}

}  // namespace

Secret random_secret() {
  Secret secret;
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), secret.size()) != 1) {
    throw Error(ExitCode::internal, "no random numbers for a secret: " + last_error());
  }
  return secret;
}

std::string to_hex(const Secret& secret) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : secret) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Secret secret_from_hex(const std::string& text) {
  Secret secret;
  const char* at = text.data();
  bool is_sound = text.size() == 2 * secret.size();
  for (auto byte = secret.begin(); is_sound && byte != secret.end(); ++byte, at += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(at, at + 2, value, 16);
    is_sound = error == std::errc{} && end == at + 2;
    *byte = std::byte(value);
  }
  if (!is_sound) {
    throw Error(ExitCode::bad_data, "a secret is " + std::to_string(2 * secret.size()) +
                                        " hexadecimal digits, not these");
  }
  return secret;
}

void TlsStream::Free::operator()(ssl_st* ssl) const { ::SSL_free(ssl); }

TlsStream::TlsStream(FileDescriptor socket, Side side, const Secret& secret)
    : socket_(std::move(socket)), secret_(std::make_unique<Secret>(secret)) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    throw Error(ExitCode::internal,
                std::string("a socket cannot be used: ") + std::strerror(errno));
  }
  ssl_.reset(required(::SSL_new(make_context(side).get()), "connection"));
  BIO* const bio = bio_of(socket_.get());
  ::SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), secret_.get());
  if (side == Side::client) {
    ::SSL_set_connect_state(ssl_.get());
  } else {
    ::SSL_set_accept_state(ssl_.get());
  }
}

TlsStream::State TlsStream::handshake() {
  ::ERR_clear_error();
  const State state = outcome(::SSL_do_handshake(ssl_.get()));
  established_ = established_ || state == State::ready;
  return state;
}

TlsStream::State TlsStream::read(std::span<std::byte> bytes, std::size_t& done) {
  done = 0;
  if (bytes.empty()) return State::ready;
  ::ERR_clear_error();
  return outcome(::SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &done));
}

TlsStream::State TlsStream::write(std::span<const std::byte> bytes, std::size_t& done) {
  done = 0;
  if (bytes.empty()) return State::ready;
  ::ERR_clear_error();
  return outcome(::SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &done));
}

void TlsStream::finish(double seconds) noexcept {
  using Clock = std::chrono::steady_clock;
  if (::shutdown(socket_.get(), SHUT_WR) != 0) return;  // gone already
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::array<std::byte, 1 << 14> dropped;
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return;
    const auto count = ::recv(socket_.get(), dropped.data(), dropped.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

TlsStream::State TlsStream::outcome(int code) {
  if (code == 1) return State::ready;
  const int system_error = errno;
  switch (::SSL_get_error(ssl_.get(), code)) {
    case SSL_ERROR_WANT_READ:
      return State::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return State::wants_write;
    case SSL_ERROR_ZERO_RETURN:
      problem_ = "the other end has closed the connection";
      return State::ended;
    case SSL_ERROR_SYSCALL:
      problem_ = system_error == 0 ? "the other end is gone" : std::strerror(system_error);
      return State::ended;
    default:
      break;
  }
  const unsigned long error = ::ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  const bool is_cut = reason == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  const bool speaks_tls = reason != SSL_R_WRONG_VERSION_NUMBER;
  stranger_ = !established_ && !is_cut && speaks_tls;
  problem_ = is_cut ? "the other end is gone" : last_error();
  ::ERR_clear_error();
  return State::ended;
}

}  // namespace archipelago::link
