#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

namespace archipelago::link {

// Where a syncer listens.
struct Address {
  std::string host;
  std::uint16_t port = 0;
};

// "host:4711" or "[::1]:4711", and back. Throws Error(configuration) saying what is wrong.
Address parse_address(const std::string& text);
std::string to_text(const Address& address);

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// What sockets of TCP take for it, at least one; `flags` as getaddrinfo's. Throws
// Error(configuration) where the host is unknown, Error(try_again) where that cannot be told now.
AddressList look_up(const Address& address, int flags = 0);

}  // namespace archipelago::link
