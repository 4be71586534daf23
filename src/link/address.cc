#include "link/address.h"

#include <charconv>

#include "core/error.h"

namespace archipelago::link {

Address parse_address(const std::string& text) {
  constexpr std::uint32_t kLargestPort = 65'535;
  const auto colon = text.rfind(':');
  Address address;
  std::uint32_t port = 0;
  bool is_sound = colon != std::string::npos && colon > 0;
  if (is_sound) {
    address.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
    is_sound = (error == std::errc{} || error == std::errc::result_out_of_range) && rest == end;
    if (error == std::errc::result_out_of_range) port = kLargestPort + 1;
  }
  const bool is_bracketed = address.host.starts_with('[') && address.host.ends_with(']');
  if (is_bracketed) address.host = address.host.substr(1, address.host.size() - 2);
  if (!is_sound || address.host.empty() ||
      (!is_bracketed && address.host.find(':') != std::string::npos)) {
    throw Error(ExitCode::configuration,
                "'" + text + "' is no address; write HOST:PORT, or [HOST]:PORT for IPv6");
  }
  if (port > kLargestPort) {
    throw Error(ExitCode::configuration,
                "the port of '" + text + "' is above " + std::to_string(kLargestPort));
  }
  address.port = static_cast<std::uint16_t>(port);
  return address;
}

std::string to_text(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return (is_v6 ? '[' + address.host + ']' : address.host) + ':' + std::to_string(address.port);
}

AddressList look_up(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(error == EAI_AGAIN ? ExitCode::try_again : ExitCode::configuration,
                "no address is known of " + to_text(address) + " (" + ::gai_strerror(error) + ")");
  }
  return AddressList(found, ::freeaddrinfo);
}

}  // namespace archipelago::link
