#pragma once

#include <vector>

#include "link/message.h"

namespace archipelago::runtime {

// What the syncer waits for: the newest ask for each fragment, in the order in which they came.
// None may be forgotten while its round is open, since that round may wait for this learner alone.
using Asks = std::vector<link::DownHeader>;

void remember(Asks& asks, const link::DownHeader& ask);

// A fragment has come down: rounds that asked for it at an older version are over.
void forget_closed(Asks& asks, const link::DownHeader& fragment);

}  // namespace archipelago::runtime
