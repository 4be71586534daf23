#pragma once

#include <cstddef>
#include <vector>

#include "nccl.h"

// An NCCL between threads of one process that computes the mean when every rank's stream has come
// to the collective, and throws emulation::Misuse where ranks' collectives differ in order or size,
// or where a call would block.

namespace archipelago::emulation {

// The sizes of each rank's collectives in the order in which it queued them, of the newest group.
std::vector<std::vector<std::size_t>> collectives();

// Communicators that have neither been aborted nor destroyed.
int living_communicators();

}  // namespace archipelago::emulation
