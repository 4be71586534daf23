#include "island/member.h"

#include <unistd.h>

namespace archipelago::island {

MemberWire own_member() {
  MemberWire own{};
  host_name().copy(own.host, sizeof own.host - 1);
  own.pid = ::getpid();
  return own;
}

std::string host_name() {
  char name[sizeof MemberWire::host] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace archipelago::island
