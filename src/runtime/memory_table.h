#pragma once

#include <cstdint>
#include <string>

#include "runtime/learner_memory.h"

namespace archipelago::runtime {

// Resident memory of this process in bytes, files of the program itself left out (RssAnon +
// RssShmem of /proc/self/status); 0 where that cannot be read.
std::int64_t resident_bytes();

// One line: each part of a learner's memory in MiB, their sum, what the process had before the
// model was made, and what is resident now. Bytes.
std::string memory_table(const LearnerMemory& memory, std::int64_t before, std::int64_t resident);

// What the model has made resident, as a share of the sum of its parts.
double memory_ratio(const LearnerMemory& memory, std::int64_t before, std::int64_t resident);

}  // namespace archipelago::runtime
