#pragma once

#include <cstdint>
#include <string>

namespace archipelago::island {

// A process that belongs to an island, as its leader and the syncer know it.
struct Member {
  std::string host;
  std::int64_t pid;
};

// The same as bytes between ranks.
struct MemberWire {
  char host[256];
  std::int64_t pid;
};

// This process.
MemberWire own_member();

inline Member from_wire(const MemberWire& wire) { return {wire.host, wire.pid}; }

}  // namespace archipelago::island
