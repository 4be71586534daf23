#include "island/member.h"

#include <unistd.h>

#include "core/file.h"

namespace archipelago::island {

MemberWire own_member() {
  MemberWire own{};
  host_name().copy(own.host, sizeof own.host - 1);
  own.pid = ::getpid();
  return own;
}

}  // namespace archipelago::island
