#pragma once

#include "core/error.h"

namespace archipelago {

// Runs `read`, which may refuse what it reads.
template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

}  // namespace archipelago
