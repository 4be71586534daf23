#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "link/address.h"
#include "link/tls_stream.h"

namespace archipelago::link {

// A connection whose two ends have proved that they know the secret, for their first words: who
// they are. An end of a pair is made of its stream then.
class TlsConnection {
 public:
  explicit TlsConnection(TlsStream established) : stream_(std::move(established)) {}

  // Throws Error(try_again) where nobody answers within so many seconds, Error(configuration) where
  // the host is unknown or the secret is not that of the listener.
  static TlsConnection connect(const Address& address, const Secret& secret, double seconds);

  // One message, whole. Both throw Error(try_again) where the other end is gone, or takes longer
  // than so many seconds; receive() also where the message is longer than `largest` bytes.
  void send(std::span<const std::byte> message, double seconds);
  std::vector<std::byte> receive(std::size_t largest, double seconds);

  TlsStream take_stream() { return std::move(stream_); }

 private:
  TlsStream stream_;
};

// Why nobody answers there within so many seconds; nothing where somebody does. Throws as connect()
// does where the host is unknown.
std::optional<std::string> silence_of(const Address& address, double seconds);

// What every connection of the exchange has: no delay of small messages, and an end when the peer
// has not answered for half a minute.
void set_socket_options(int socket);

// Waits until the stream can go on from `state`, or for `seconds`; whether it can.
bool wait_for(const TlsStream& stream, TlsStream::State state, double seconds);

}  // namespace archipelago::link
