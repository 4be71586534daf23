#pragma once

#include <string>

namespace archipelago::sync {

// What to say where a run's folder has no event tape.
inline std::string words_on_missing_tape(const std::string& path) {
  return "cannot read the event tape " + path +
         "; a run of a method without a syncer (data-parallel, diloco, streaming-diloco) leaves "
         "none";
}

}  // namespace archipelago::sync
