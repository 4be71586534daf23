#include "runtime/tape_follower.h"

#include <vector>

#include "core/error.h"
#include "runtime/machine_settings.h"

namespace archipelago::runtime {

TapeFollower::TapeFollower(const Setup& setup, const std::optional<checkpoint::Global>& restored)
    : machine_(machine_settings(setup), restored_from(restored)) {
  chain_.seal(sync::encode_start({machine_settings(setup), restored_from(restored)}));
}

sync::TapeEntry TapeFollower::follow(const std::string& line) {
  sync::TapeEntry entry = sync::decode_entry(line);
  std::vector<sync::Action> actions;
  machine_.handle(entry.time, entry.event, actions);
  if (actions != entry.actions || chain_.follow(line) != sync::TapeChain::Fit::fits) {
    throw Error(ExitCode::internal,
                "this syncer decides otherwise than the first one did at " + line);
  }
  return entry;
}

}  // namespace archipelago::runtime
