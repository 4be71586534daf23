#pragma once

#include <cstdint>
#include <string>

#include "runtime/learner_state.h"

namespace archipelago::runtime {

// Resident memory of this process in bytes, files of the program itself left out (RssAnon +
// RssShmem of /proc/self/status); 0 where that cannot be read.
std::int64_t resident_bytes();

// One line: each part of a learner's memory in MiB, their sum, and what is resident.
std::string memory_table(const LearnerState::Memory& memory, std::int64_t resident);

}  // namespace archipelago::runtime
