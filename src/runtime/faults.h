#pragma once

#include "island/island.h"
#include "link/message.h"

namespace archipelago::runtime {

// Carries out a kill or a stop of the chaos plan on a rank of this island, for real. The rank runs
// on this host.
void inflict(const link::DownHeader& fault, const island::Island& island);

}  // namespace archipelago::runtime
