#pragma once

#include "core/error.h"
#include "mpi/check.h"

namespace archipelago::baseline {

// What several ranks do together has come to its end, since one of them died or was called away.
// Methods that can't go on without it let it end the run.
class ExchangeEnded : public Error {
 public:
  ExchangeEnded()
      : Error(ExitCode::internal, "a rank died, and this method can't go on without it") {}
};

// Throws ExchangeEnded where a rank died.
inline void require(mpi::Outcome outcome) {
  if (outcome != mpi::Outcome::ok) throw ExchangeEnded();
}

}  // namespace archipelago::baseline
