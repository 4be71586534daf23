#include "runtime/asks.h"

namespace archipelago::runtime {

bool is_for(const link::DownHeader& fragment, const link::DownHeader& order) {
  return order.kind == link::DownKind::assign && fragment.learner == order.learner &&
         fragment.incarnation == order.incarnation;
}

void remember(Asks& asks, const link::DownHeader& ask) {
  std::erase_if(asks, [&](const auto& other) { return other.fragment == ask.fragment; });
  asks.insert(asks.begin(), ask);
}

void forget_closed(Asks& asks, const link::DownHeader& fragment) {
  std::erase_if(asks, [&](const auto& ask) {
    return ask.fragment == fragment.fragment && ask.version < fragment.version;
  });
}

}  // namespace archipelago::runtime
