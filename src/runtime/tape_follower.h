#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "runtime/setup.h"
#include "sync/machine.h"
#include "sync/tape.h"

namespace archipelago::runtime {

// The syncer's decisions, followed by another syncer entry by entry of the event tape.
class TapeFollower {
 public:
  // `restored`: what the syncer itself started from.
  TapeFollower(const Setup& setup, const std::optional<checkpoint::Global>& restored);

  // The entry, once the machine has handled its event. Throws Error(internal) when the syncer
  // decided something else.
  sync::TapeEntry follow(const std::string& line);

  const sync::Machine& machine() const { return machine_; }
  const sync::TapeChain& chain() const { return chain_; }

 private:
  sync::Machine machine_;
  sync::TapeChain chain_;
};

}  // namespace archipelago::runtime
